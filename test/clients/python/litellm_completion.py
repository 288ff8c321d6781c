"""litellm: its message objects go back as they are."""
import json
import os
os.environ['LITELLM_LOCAL_MODEL_COST_MAP'] = 'True'
import litellm
from said import BASE, KEY, SCHEMA, STREAM, USERS, ids, read, said, tell

TOOLS = [{'type': 'function', 'function': {'name': 'read', 'parameters': SCHEMA}}]
messages = []


def answer():
    asking = {'model': 'openai/policy', 'api_base': f'{BASE}/v1', 'api_key': KEY, 'messages': messages, 'tools': TOOLS}
    if not STREAM:
        return litellm.completion(**asking)
    return litellm.stream_chunk_builder(list(litellm.completion(**asking, stream=True)), messages=messages)


for words in USERS:
    messages.append({'role': 'user', 'content': words})
    while True:
        completion = answer()
        ids.append(completion.id)
        message = completion.choices[0].message
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            result = read(**json.loads(call.function.arguments))
            messages.append({'role': 'tool', 'tool_call_id': call.id, 'content': result})
    said.append(message.content)
tell()
