"""inspect-ai: a solver's loop of tools over one conversation."""
import asyncio
import os
os.environ['INSPECT_DISABLE_MODEL_API_CACHE'] = '1'
from inspect_ai.model import ChatMessageUser, GenerateConfig, execute_tools, get_model
from inspect_ai.tool import tool
from said import BASE, KEY, USERS, said, tell
from said import read as reading


@tool
def read():
    async def execute(path: str, lines: float) -> str:
        """Reads a file.

        Args:
            path: Which.
            lines: How many.
        """
        return reading(path, lines)
    return execute


async def main():
    model = get_model('openai/policy', base_url=f'{BASE}/v1', api_key=KEY, responses_api=False,
                      config=GenerateConfig(max_retries=0))
    messages = []
    for words in USERS:
        messages.append(ChatMessageUser(content=words))
        while True:
            output = await model.generate(messages, tools=[read()])
            messages.append(output.message)
            if not output.message.tool_calls:
                break
            messages.extend((await execute_tools(messages, [read()])).messages)
        said.append(output.completion)


asyncio.run(main())
tell()
