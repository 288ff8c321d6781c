/**
 * The scenario of every agent: two files read by parallel calls, a complaint, a written file, a farewell; one process
 * per prompt. The texts of the model contain what agents tend to normalise.
 */
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { realpathSync } from 'node:fs'
import { hostname } from 'node:os'
import path from 'node:path'
import { makePlace, type Place, type Ran } from '../program.ts'
import { calls, startScene, type Say, type Scene } from '../scene.ts'
import type { Program } from './programs.ts'

export const PROMPTS = [
  'Compare both files, please.',
  'That was wrong, write it down.',
  'Thank you and good bye.',
] as const
export const ANSWERS = ['Cafe\u0301 and caf\u00e9:\r\n\tred &amp; blue.', 'It is written.', 'Bye.'] as const
/** The number of requests of the scenario. */
export const TURNS = 5

export const talkOf =
  (program: Program, place: Place): Say =>
  (last) => {
    if (last.includes(PROMPTS[0]))
      return `<think>\nTwo files.\n</think>\n\nI will look.\n${calls(program.read(place, 'a1.txt'), program.read(place, 'a2.txt'))}`
    if (last.includes('It is red') && last.includes('It is blue')) return `${ANSWERS[0]}  `
    if (last.includes(PROMPTS[1])) return calls(program.write(place, 'note.txt', 'purple'))
    if (last.includes(PROMPTS[2])) return `<think>\nThey leave.\n</think>\n\n${ANSWERS[2]}`
    return ANSWERS[1]
  }

type Journey = {
  scene: Scene
  place: Place
  say(prompt: string, goOn?: boolean): Promise<Ran>
  record(tape: string): Promise<void>
  end(): Promise<void>
}

/** `script`: the answers of the model; default: the whole scenario. `tape`: the name under which it is recorded. */
export const begin = async (
  program: Program,
  {
    script = (place: Place) => talkOf(program, place),
    tape,
    ...options
  }: { script?: (place: Place) => Say; tape?: string; contextLength?: number; limited?: boolean } = {},
): Promise<Journey> => {
  const place = await makePlace()
  await Promise.all(
    [
      ['a1.txt', 'It is red.\n'],
      ['a2.txt', 'It is blue.\n'],
    ].map(([file, text]) => writeFile(path.join(place.work, file!), text!)),
  )
  const scene = await startScene(script(place), options)
  await program.prepare(scene, place)
  const record = (name: string): Promise<void> =>
    scene.record(name, `${program.name} ${program.version}`, hiddenOf(place))
  return {
    scene,
    place,
    record,
    say: (prompt, goOn = false) => program.run(scene, place, prompt, goOn),
    async end() {
      if (tape !== undefined) await record(tape)
      await scene.stop()
      await place.remove()
    },
  }
}

/** Names of this machine, the longest first. */
const hiddenOf = ({ root, home, work }: Place): (readonly [string, string])[] => [
  [work, '/home/agent/project'],
  [home, '/home/agent'],
  [root, '/home'],
  [path.basename(root), 'agent'],
  [path.resolve(import.meta.dirname, '../../..'), '/opt/instar'],
  [realpathSync(path.resolve(import.meta.dirname, 'node_modules')), '/opt/agents'],
  [hostname(), 'host'],
]

const LINE = 'A long line of text that says nothing at all.\n'

/** A file, `a3.txt`, that fills the context before the last of these prompts. */
export const readBig = async (
  { say, place }: Journey,
  prompts: readonly string[] = ['Read the big file.', PROMPTS[2]],
  lines = 400,
): Promise<void> => {
  await writeFile(path.join(place.work, 'a3.txt'), LINE.repeat(lines))
  for (const [i, prompt] of prompts.entries()) assert.equal((await say(prompt, i > 0)).code, 0)
}

/** Runs the whole scenario; `ran` has what the agent printed for each prompt. */
export const travel = async ({ say, place }: Journey): Promise<Ran[]> => {
  const ran: Ran[] = []
  for (const [i, prompt] of PROMPTS.entries()) {
    const one = await say(prompt, i > 0)
    assert.equal(one.code, 0, one.stderr)
    ran.push(one)
  }
  assert.equal(await readFile(path.join(place.work, 'note.txt'), 'utf8'), 'purple')
  return ran
}
