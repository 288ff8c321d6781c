"""smolagents; `argv[2]`: code or calling. Three tasks of one agent."""
import sys
from smolagents import CodeAgent, OpenAIServerModel, ToolCallingAgent, tool
from said import BASE, KEY, STREAM, USERS, said, tell
from said import read as reading


@tool
def read(path: str, lines: float) -> str:
    """Reads a file.

    Args:
        path: Which.
        lines: How many.
    """
    return reading(path, lines)


model = OpenAIServerModel(model_id='policy', api_base=f'{BASE}/v1', api_key=KEY, tool_choice='auto')
Kind = CodeAgent if sys.argv[2] == 'code' else ToolCallingAgent
agent = Kind(tools=[read], model=model, verbosity_level=0, max_steps=4, stream_outputs=STREAM)
for i, words in enumerate(USERS):
    said.append(agent.run(words, reset=i == 0))
tell()
