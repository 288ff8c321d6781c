/** openai-java: a conversation of five turns with calls, whole and streamed, checked on the log. */
import { test } from 'node:test'
import { converse } from '../converse.ts'
import { runProgram } from '../program.ts'
import { javaArtifact, javaClients, NO_JAVA } from './java.ts'

const PROGRAMS = [
  ['chat', 'Chat'],
  ['responses', 'Responses'],
] as const

const classPath = javaClients()
const skip = classPath === null ? NO_JAVA : false

for (const [dialect, main] of PROGRAMS)
  for (const how of ['whole', 'stream']) {
    const name = `${javaArtifact('openai-java')} ${dialect}`
    test(
      `${name}, ${how}: a conversation is one session, next states are joined, and feedback by the client's ids counts`,
      { skip },
      () => converse({ name }, (place, env) => runProgram('java', ['-cp', classPath!, main, how], place, env)),
    )
  }
