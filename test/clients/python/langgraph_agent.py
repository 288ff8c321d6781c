"""langchain and langgraph: an agent, its messages kept by a checkpointer."""
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from said import BASE, KEY, STREAM, USERS, ids, said, tell
from said import read as reading


def read(path: str, lines: float) -> str:
    """Reads a file."""
    return reading(path, lines)


model = ChatOpenAI(model='policy', base_url=f'{BASE}/v1', api_key=KEY, max_retries=0, streaming=STREAM)
agent = create_agent(model, [read], checkpointer=InMemorySaver())
thread = {'configurable': {'thread_id': 'one'}}
for words in USERS:
    asking = {'messages': [{'role': 'user', 'content': words}]}
    if STREAM:
        for _ in agent.stream(asking, thread, stream_mode='messages'):
            pass
        messages = agent.get_state(thread).values['messages']
    else:
        messages = agent.invoke(asking, thread)['messages']
    said.append(messages[-1].content)
# Of a stream it keeps ids of its own alone.
told = [message.response_metadata.get('id') for message in messages if message.type == 'ai']
ids.extend(told if all(one and one.startswith('chatcmpl') for one in told) else [])
tell()
