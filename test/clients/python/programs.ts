/** The Python clients: what is installed for them, and one conversation of each against a scene. */
import assert from 'node:assert/strict'
import path from 'node:path'
import { pythonOf, pythonPrograms } from '../../python/environment.ts'
import { CALLED, SAID, talk, TURNS } from '../conversation.ts'
import { makePlace, runProgram } from '../program.ts'
import { assertAnswered, assertOneThread, startScene, type Say, type Scene } from '../scene.ts'

const HERE = import.meta.dirname
const [FROM, TO] = [11, 13]

/** The folder of their programs; null where this machine has no Python that will do. */
export const pythonClients = (list = 'requirements.txt'): string | null => {
  if (pythonOf(FROM, TO) === null) return null
  return pythonPrograms({
    name: `python-clients${list === 'requirements.txt' ? '' : `-${path.basename(list, '.txt')}`}`,
    hashed: path.join(HERE, list), from: FROM, to: TO,
  })
}

export const NO_PYTHON = `Python 3.${FROM} to 3.${TO} with venv is needed`

export type Client = {
  /** Its package and version, as requirements.txt pins it. */
  name: string
  script: string
  args?: readonly string[]
  streams?: boolean
  say?: Say
  tape?: string
  /** What it is to say and to ask, where that is not what everybody does. */
  said?: readonly string[]
  asked?: readonly object[]
  turns?: number
  /** What is heard in the next state of each turn but the last. */
  heard?: readonly { user: RegExp; tools: RegExp }[]
  /** Its prompts are not what was sampled before: texts come back changed. */
  rewritten?: boolean
}

/** Some call several tools at once. */
const byPath = (asked: readonly object[]): string[] =>
  asked.map((one) => JSON.stringify(Object.entries(one).toSorted(byText))).toSorted(byText)
const byText = (a: unknown, b: unknown): number => (String(a) < String(b) ? -1 : 1)

type Told = { said: string[]; asked: object[]; ids: string[] }

const HEARD = [
  { user: /^$/, tools: /It is red\.[^]*It is blue\./ }, { user: /^That was wrong\.$/, tools: /^$/ },
  { user: /^$/, tools: /It is green\./ }, { user: /^Good bye\.$/, tools: /^$/ },
]

/** Runs its conversation, and holds what the log says of it against what was said. */
export const converse = async (programs: string, client: Client, stream: boolean): Promise<void> => {
  const scene = await startScene(client.say ?? talk)
  const place = await makePlace()
  try {
    const args = [path.join(HERE, `${client.script}.py`), stream ? 'stream' : 'whole', ...client.args ?? []]
    const ran = await runProgram(path.join(programs, 'python'), args, place, { BASE: scene.url, KEY: scene.token, ...OFFLINE })
    assert.equal(ran.code, 0, ran.stderr)
    const told = JSON.parse(ran.stdout.trim().split('\n').at(-1)!) as Told
    assert.deepEqual([told.said, byPath(told.asked)], [client.said ?? SAID, byPath(client.asked ?? CALLED)])
    await assertJoined(scene, client)
    await assertFeedback(scene, told.ids)
    if (client.tape !== undefined && !stream) await scene.record(client.tape, client.name)
  } finally {
    await scene.stop()
    await place.remove()
  }
}

/** Nothing is asked of the net, nothing is told to anybody. */
const OFFLINE = {
  OTEL_SDK_DISABLED: 'true', CREWAI_DISABLE_TELEMETRY: 'true', CREWAI_TRACING_ENABLED: 'false', DO_NOT_TRACK: '1',
  OPENAI_AGENTS_DISABLE_TRACING: '1', PYTHONDONTWRITEBYTECODE: '1', PYTHONWARNINGS: 'ignore',
}

/** One session, each turn the next state of the one before, all of it main and trainable. */
const assertJoined = async (scene: Scene, { turns = TURNS, heard = HEARD, rewritten = false }: Client): Promise<void> => {
  const story = await scene.story()
  if (rewritten) {
    const all = <T>(value: T): T[] => Array.from({ length: turns }, () => value)
    assert.deepEqual([story.of('session'), story.of('kind'), story.of('status')], [all(0), all('main'), all('complete')])
    assert.deepEqual(story.of('next'), all(0).map((_, i) => (i === turns - 1 ? null : i + 1)))
    assert.deepEqual(story.of('reason'), all(null))
  } else assertOneThread(story, turns)
  assertAnswered(scene, story)
  const became = await scene.became()
  for (const [i, { user, tools }] of heard.entries()) {
    assert.match(became[i]!.heard!.user, user, `what the user said to turn ${i}`)
    assert.match(became[i]!.heard!.tools, tools, `what tools said to turn ${i}`)
  }
}

/** By the ids that the library tells; where it tells none, by those of the answers. */
const assertFeedback = async ({ rig, token, wire }: Scene, told: readonly string[]): Promise<void> => {
  const answers = wire.exchanges.filter(({ turn }) => turn !== null)
  const ids = told.length > 0 ? told : answers.map(({ answer }) => /"id":\s?"([^"]+)"/.exec(answer)![1]!)
  assert.equal(ids.length, answers.length)
  for (const [i, id] of ids.entries()) {
    const response = await rig.fetch('/v1/feedback', { json: { turn_id: id, value: 1 }, headers: { authorization: `Bearer ${token}` } })
    const body = await response.json() as { turn_id?: string }
    assert.deepEqual([response.status, body.turn_id], [200, answers[i]!.turn], id)
  }
}
