"""anthropic, its tool runner: threads of messages, of which only what is new is sent, where the gateway takes them."""
from anthropic import Anthropic, beta_tool
from said import BASE, KEY, STREAM, USERS, ids, said, tell
from said import read as reading

client = Anthropic(base_url=BASE, api_key=KEY, max_retries=0)


@beta_tool
def read(path: str, lines: float) -> str:
    """Reads a file."""
    return reading(path, lines)


messages = []
for words in USERS:
    messages.append({'role': 'user', 'content': words})
    runner = client.beta.messages.tool_runner(
        model='policy', max_tokens=400, messages=messages, tools=[read], **({'stream': True} if STREAM else {}))
    for turn in runner:
        message = turn.get_final_message() if STREAM else turn
        ids.append(message.id)
        messages.append({'role': 'assistant', 'content': [b.model_dump(exclude_none=True) for b in message.content]})
        called = runner.generate_tool_call_response()
        if called is not None:
            messages.append(called)
    said.append(''.join(block.text for block in message.content if block.type == 'text'))
tell()
