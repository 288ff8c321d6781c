"""openai-agents; `argv[2]`: chat or responses."""
import asyncio
import sys
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI
from said import BASE, KEY, STREAM, USERS, ids, said, tell
from said import read as reading

set_tracing_disabled(True)


@function_tool
def read(path: str, lines: float) -> str:
    """Reads a file."""
    return reading(path, lines)


async def main():
    client = AsyncOpenAI(base_url=f'{BASE}/v1', api_key=KEY, max_retries=0)
    Model = OpenAIChatCompletionsModel if sys.argv[2] == 'chat' else OpenAIResponsesModel
    agent = Agent(name='Reader', tools=[read], model=Model(model='policy', openai_client=client))
    items = []
    for words in USERS:
        items = [*items, {'role': 'user', 'content': words}]
        if STREAM:
            result = Runner.run_streamed(agent, items)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(agent, items)
        items = result.to_input_list()
        # Of a stream of Chat Completions it says `__fake_id__`.
        told = [response.response_id for response in result.raw_responses]
        ids.extend(told if all(one and not one.startswith('__') for one in told) else [])
        said.append(result.final_output)


asyncio.run(main())
tell()
