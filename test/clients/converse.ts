/** One conversation of a client in any language with a scene, checked on the log. */
import assert from 'node:assert/strict'
import { CALLED, SAID, talk, TURNS } from './conversation.ts'
import { makePlace, type Place, type Ran } from './program.ts'
import { assertAnswered, assertOneThread, startScene, type Say, type Scene } from './scene.ts'

export type Client = {
  /** Its package and version. */
  name: string
  say?: Say
  /** Its texts and questions, where they differ from those of other clients. */
  said?: readonly string[]
  asked?: readonly object[]
  turns?: number
  /** The text in the next state of each turn but the last. */
  heard?: readonly { user: RegExp; tools: RegExp }[]
  /** Its prompts do not extend sampled tokens, since it changes texts. */
  rewritten?: boolean
}

/** Some clients call several tools at once. */
const byPath = (asked: readonly object[]): string[] =>
  asked.map((one) => JSON.stringify(Object.entries(one).toSorted(byText))).toSorted(byText)
const byText = (a: unknown, b: unknown): number => (String(a) < String(b) ? -1 : 1)

type Told = { said: string[]; asked: object[]; ids: string[] }

const HEARD = [
  { user: /^$/, tools: /It is red\.[^]*It is blue\./ },
  { user: /^That was wrong\.$/, tools: /^$/ },
  { user: /^$/, tools: /It is green\./ },
  { user: /^Good bye\.$/, tools: /^$/ },
]

/**
 * A client program that has the conversation with the gateway at `BASE` (without /v1) with the token `KEY`, whole or
 * streamed, and prints one line of JSON: `said`, `asked`, `ids`.
 */
export type Run = (place: Place, env: Readonly<Record<string, string>>) => Promise<Ran>

/** Runs the program and compares the log with its output. */
export const converse = async (client: Client, run: Run, tape?: string): Promise<void> => {
  const scene = await startScene(client.say ?? talk)
  const place = await makePlace()
  try {
    const ran = await run(place, { BASE: scene.url, KEY: scene.token })
    assert.equal(ran.code, 0, ran.stderr)
    const told = JSON.parse(ran.stdout.trim().split('\n').at(-1)!) as Told
    assert.deepEqual([told.said, byPath(told.asked)], [client.said ?? SAID, byPath(client.asked ?? CALLED)])
    await assertJoined(scene, client)
    await assertFeedback(scene, told.ids)
    if (tape !== undefined) await scene.record(tape, client.name)
  } finally {
    await scene.stop()
    await place.remove()
  }
}

/** One session in which each turn is the next state of the one before; all turns are main and trainable. */
const assertJoined = async (
  scene: Scene,
  { turns = TURNS, heard = HEARD, rewritten = false }: Client,
): Promise<void> => {
  const story = await scene.story()
  if (rewritten) {
    const all = <T>(value: T): T[] => Array.from({ length: turns }, () => value)
    assert.deepEqual(
      [story.of('session'), story.of('kind'), story.of('status')],
      [all(0), all('main'), all('complete')],
    )
    assert.deepEqual(
      story.of('next'),
      all(0).map((_, i) => (i === turns - 1 ? null : i + 1)),
    )
    assert.deepEqual(story.of('reason'), all(null))
  } else assertOneThread(story, turns)
  assertAnswered(scene, story)
  const became = await scene.became()
  for (const [i, { user, tools }] of heard.entries()) {
    assert.match(became[i]!.heard!.user, user, `what the user said to turn ${i}`)
    assert.match(became[i]!.heard!.tools, tools, `what tools said to turn ${i}`)
  }
}

/** By the ids that the library exposes, else by those of the answers. */
const assertFeedback = async ({ rig, token, wire }: Scene, told: readonly string[]): Promise<void> => {
  const answers = wire.exchanges.filter(({ turn }) => turn !== null)
  const ids = told.length > 0 ? told : answers.map(({ answer }) => /"id":\s?"([^"]+)"/.exec(answer)![1]!)
  assert.equal(ids.length, answers.length)
  for (const [i, id] of ids.entries()) {
    const headers = { authorization: `Bearer ${token}` }
    const response = await rig.fetch('/v1/feedback', { json: { turn_id: id, value: 1 }, headers })
    const body = (await response.json()) as { turn_id?: string }
    assert.deepEqual([response.status, body.turn_id], [200, answers[i]!.turn], id)
  }
}
