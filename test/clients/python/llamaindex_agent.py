"""LlamaIndex, ReActAgent: three prompts in one context."""
import asyncio
from llama_index.core.agent.workflow import ReActAgent
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike
from said import BASE, KEY, USERS, said, tell
from said import read as reading


def read(path: str, lines: float) -> str:
    """Reads a file."""
    return reading(path, lines)


async def main():
    llm = OpenAILike(
        model='policy', api_base=f'{BASE}/v1', api_key=KEY, is_chat_model=True, context_window=100000, max_retries=0)
    agent = ReActAgent(tools=[read], llm=llm)
    context = Context(agent)
    for words in USERS:
        said.append(str(await agent.run(words, ctx=context)))


asyncio.run(main())
tell()
