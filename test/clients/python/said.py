"""
One conversation for every library: two parallel calls, an answer, words of displeasure, a call again, an answer, a
farewell. `argv[1]`: whole or stream. Prints one JSON object: what was said, what the tool was asked, the ids of the
answers as the library tells them.
"""
import json
import os
import sys

BASE = os.environ['BASE']
KEY = os.environ['KEY']
STREAM = sys.argv[1:2] == ['stream']
USERS = ['Read both files.', 'That was wrong.', 'Good bye.']
FILES = {'a.txt': 'It is red.', 'b.txt': 'It is blue.', 'c.txt': 'It is green.'}
SCHEMA = {
    'type': 'object',
    'properties': {'path': {'type': 'string'}, 'lines': {'type': 'number'}},
    'required': ['path', 'lines'],
    'additionalProperties': False,
}
said, asked, ids = [], [], []


def read(path, lines):
    asked.append({'path': path, 'lines': lines})
    return FILES[path]


def tell():
    print('\n' + json.dumps({'said': said, 'asked': asked, 'ids': ids}))
