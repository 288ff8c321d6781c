"""CrewAI, its ReAct protocol in text: one task of two steps."""
from crewai import LLM, Agent, Crew, Task
from crewai.tools import tool
from said import BASE, KEY, USERS, said, tell
from said import read as reading


@tool('read')
def read(path: str, lines: float) -> str:
    """Reads a file."""
    return reading(path, lines)


llm = LLM(model='openai/policy', base_url=f'{BASE}/v1', api_key=KEY)
type(llm).supports_function_calling = lambda self: False
agent = Agent(role='Reader', goal='Read files', backstory='You read.', llm=llm, tools=[read], max_iter=5)
task = Task(description=USERS[0], expected_output='The colours.', agent=agent)
said.append(Crew(agents=[agent], tasks=[task]).kickoff().raw)
tell()
