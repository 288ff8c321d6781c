/** Go clients: a conversation of five turns with calls, whole and streamed, checked on the log. */
import path from 'node:path'
import { test } from 'node:test'
import { converse } from '../converse.ts'
import { runProgram } from '../program.ts'
import { goClients, goModule, NO_GO } from './go.ts'

const openai = goModule('github.com/openai/openai-go/v3')
const PROGRAMS = [
  [`${openai} chat`, 'openai-chat'],
  [`${openai} responses`, 'openai-responses'],
  [goModule('github.com/sashabaranov/go-openai'), 'sashabaranov'],
] as const

const programs = goClients()
const skip = programs === null ? NO_GO : false

for (const [name, program] of PROGRAMS)
  for (const how of ['whole', 'stream']) {
    test(
      `${name}, ${how}: a conversation is one session, next states are joined, and feedback by the client's ids counts`,
      { skip },
      () => converse({ name }, (place, env) => runProgram(path.join(programs!, program), [how], place, env)),
    )
  }
