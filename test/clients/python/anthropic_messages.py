"""anthropic, Messages."""
from anthropic import Anthropic
from said import BASE, KEY, SCHEMA, STREAM, USERS, ids, read, said, tell

client = Anthropic(base_url=BASE, api_key=KEY, max_retries=0)
TOOLS = [{'name': 'read', 'input_schema': SCHEMA}]
messages = []


def answer():
    asking = {'model': 'policy', 'max_tokens': 400, 'messages': messages, 'tools': TOOLS}
    if not STREAM:
        return client.messages.create(**asking)
    with client.messages.stream(**asking) as stream:
        return stream.get_final_message()


for words in USERS:
    content = [{'type': 'text', 'text': words}]
    while True:
        messages.append({'role': 'user', 'content': content})
        message = answer()
        ids.append(message.id)
        messages.append({'role': 'assistant', 'content': message.content})
        content = [{
            'type': 'tool_result', 'tool_use_id': block.id, 'content': read(**block.input),
        } for block in message.content if block.type == 'tool_use']
        if not content:
            break
    said.append(''.join(block.text for block in message.content if block.type == 'text'))
tell()
