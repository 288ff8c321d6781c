"""openai, Chat Completions."""
import json
from openai import OpenAI
from said import BASE, KEY, SCHEMA, STREAM, USERS, ids, read, said, tell

client = OpenAI(base_url=f'{BASE}/v1', api_key=KEY, max_retries=0)
TOOLS = [{'type': 'function', 'function': {'name': 'read', 'parameters': SCHEMA}}]
messages = []


def answer():
    if not STREAM:
        return client.chat.completions.create(model='policy', messages=messages, tools=TOOLS)
    with client.chat.completions.stream(model='policy', messages=messages, tools=TOOLS) as stream:
        return stream.get_final_completion()


for words in USERS:
    messages.append({'role': 'user', 'content': words})
    while True:
        completion = answer()
        ids.append(completion.id)
        message = completion.choices[0].message
        messages.append(message.model_dump(exclude_none=True, include={'role', 'content', 'tool_calls'}))
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = read(**json.loads(call.function.arguments))
            messages.append({'role': 'tool', 'tool_call_id': call.id, 'content': result})
    said.append(message.content)
tell()
