/**
 * The snippets of the documentation, run as printed: only the address and values that are marked as the reader's are
 * changed.
 */
import assert from 'node:assert/strict'
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { LabelSource, TurnCaptured } from '@instar/events'
import { makePlace, runProgram, type Place, type Ran } from './program.ts'
import { startScene, type Scene } from './scene.ts'

const ROOT = path.resolve(import.meta.dirname, '../..')
const ADDRESS = 'http://127.0.0.1:30000'
const SLOW_MS = 300_000

export const PROMPT = 'What time is it?'
export const ANSWER = 'It is noon.'

export type Page = 'README.md' | 'docs/agents.md' | 'docs/use.md'
/** `lead`: the paragraph before the block. */
export type Block = { language: string; text: string; lead: string }

/** The fenced blocks of a page, in order. `url`: of the gateway. */
export const blocksOf = async (page: Page, url: string): Promise<Block[]> => {
  const whole = (await readFile(path.join(ROOT, page), 'utf8')).replaceAll(ADDRESS, url)
  let end = 0
  return [...whole.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].map(({ 0: block, 1: language, 2: text, index }) => {
    const lead = whole.slice(end, index).trimEnd().split('\n\n').at(-1)!
    end = index + block.length
    return { language: language!, text: text!, lead }
  })
}

/** The block after this name in bold. */
export const blockOf = async (name: string, url: string): Promise<Block> => {
  const block = (await blocksOf('docs/agents.md', url)).find(({ lead }) => lead.trimStart().startsWith(`**${name}**`))
  assert.ok(block, `docs/agents.md has no block for ${name}`)
  return block
}

export type Followed = {
  /** Its name in bold on the page. */
  name: string
  /** Its name in the text of the page. */
  command: string
  script: string
  /** The command that makes it answer one prompt and exit; the prompt follows. */
  headless: string
  dialect: TurnCaptured['dialect']
  /** How the session of the first turn is found. */
  source: LabelSource
  /** The text of the model; default: the answer. */
  say?: () => string
  /** Values that the page marks as the reader's. */
  own?: Readonly<Record<string, string>>
  /** Settings that prevent network access in tests. */
  offline?: Readonly<Record<string, string>>
}

/**
 * In an empty home folder: the block is written to the file that the page names or, if it is a shell block, is run
 * before the command, which is the page's if it names one. Then the file is compared with the page.
 */
export const follow = async (
  { name, command, script, headless, own = {}, offline = {} }: Followed,
  url: string,
  place: Place,
): Promise<Ran> => {
  const { language, text, lead } = await blockOf(name, url)
  const marked = [...lead.matchAll(/`([^`]+)`/g)].map(([, code]) => code!)
  const file = marked.find((code) => code.startsWith('~/'))
  const setting = marked.find((code) => code.startsWith('{'))
  if (file !== undefined) {
    const target = path.join(place.home, file.slice(2))
    await mkdir(path.dirname(target), { recursive: true })
    await writeFile(target, language === 'sh' ? setting! : text)
  }
  const bin = path.join(place.root, 'bin')
  await mkdir(bin)
  await writeFile(
    path.join(bin, command),
    `#!/bin/sh\nexec ${script.endsWith('js') ? `'${process.execPath}' ` : ''}'${script}' "$@"\n`,
  )
  await chmod(path.join(bin, command), 0o755)
  const line = marked.find((code) => new RegExp(`^(\\w+=\\S+ )*${command}( |$)`).test(code)) ?? command
  const typed = Object.entries(own).reduce((whole, [mark, value]) => whole.replace(mark, value), `${line} ${headless}`)
  return runProgram(
    '/bin/sh',
    ['-c', `${language === 'sh' ? text : ''}${typed}`],
    place,
    {
      ...offline,
      PATH: `${bin}${path.delimiter}${path.dirname(process.execPath)}${path.delimiter}${process.env['PATH'] ?? ''}`,
    },
    SLOW_MS,
  )
}

/** A gateway without keys, as on the pages, and two empty folders. */
export const inPlace = async (
  run: (scene: Scene, place: Place) => Promise<void>,
  say = (): string => ANSWER,
): Promise<void> => {
  const place = await makePlace()
  const scene = await startScene(say, { settings: { keys: [] } })
  try {
    await run(scene, place)
  } finally {
    await scene.stop()
    await place.remove()
  }
}

/**
 * The output has the answer, and the log has one session with one trainable turn in this dialect, found by this label;
 * side turns are ignored.
 */
export const assertTold = async (
  scene: Scene,
  { code, stdout, stderr }: Ran,
  { dialect, source }: Pick<Followed, 'dialect' | 'source'>,
): Promise<void> => {
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  assert.ok(stdout.includes(ANSWER), `${stdout}\n${stderr}`)
  const { turns, sessions } = await scene.story()
  assert.equal(sessions.length, 1)
  assert.deepEqual(
    turns
      .filter(({ kind }) => kind === 'main')
      .map(({ event, status, reason, text }) => [
        event.dialect,
        event.labelSource,
        status,
        reason,
        text.split('\n')[0],
      ]),
    [[dialect, source, 'complete', null, ANSWER]],
  )
}
