"""openai, Responses: each request names the one before."""
import json
from openai import OpenAI
from said import BASE, KEY, SCHEMA, STREAM, USERS, ids, read, said, tell

client = OpenAI(base_url=f'{BASE}/v1', api_key=KEY, max_retries=0)
TOOLS = [{'type': 'function', 'name': 'read', 'parameters': SCHEMA, 'strict': False}]
last = None


def answer(items):
    asking = {'model': 'policy', 'input': items, 'tools': TOOLS}
    if last is not None:
        asking['previous_response_id'] = last
    if not STREAM:
        return client.responses.create(**asking)
    with client.responses.stream(**asking) as stream:
        return stream.get_final_response()


for words in USERS:
    items = [{'role': 'user', 'content': words}]
    while True:
        response = answer(items)
        last = response.id
        ids.append(last)
        calls = [item for item in response.output if item.type == 'function_call']
        if not calls:
            break
        items = [{
            'type': 'function_call_output', 'call_id': call.call_id, 'output': read(**json.loads(call.arguments)),
        } for call in calls]
    said.append(response.output_text)
tell()
