"""pydantic-ai; `argv[2]`: chat or responses."""
import asyncio
import sys
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider
from said import BASE, KEY, STREAM, USERS, ids, said, tell
from said import read as reading


async def heard(_, events):
    async for _ in events:
        pass


async def main():
    provider = OpenAIProvider(openai_client=AsyncOpenAI(base_url=f'{BASE}/v1', api_key=KEY, max_retries=0))
    Model = OpenAIChatModel if sys.argv[2] == 'chat' else OpenAIResponsesModel
    agent = Agent(Model('policy', provider=provider))

    @agent.tool_plain
    def read(path: str, lines: float) -> str:
        return reading(path, lines)

    history = []
    for words in USERS:
        result = await agent.run(words, message_history=history, event_stream_handler=heard if STREAM else None)
        said.append(result.output)
        history = result.all_messages()
    ids.extend(message.provider_response_id for message in history if message.kind == 'response')


asyncio.run(main())
tell()
