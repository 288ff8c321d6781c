/** The programs of README.md, docs/use.md and docs/agents.md, run as printed. */
import assert from 'node:assert/strict'
import { symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import type { TurnCaptured } from '@instar/events'
import { feedbackOf } from '../../kit/gateway.ts'
import { runProgram, type Place, type Ran } from '../program.ts'
import { assertTold, blockOf, blocksOf, inPlace, PROMPT, type Block } from '../snippets.ts'

const ADDRESS = 'http://127.0.0.1:30000'

/** The code around a line that creates `made`. */
type Around = { dialect: TurnCaptured['dialect']; imports: string; before?: (url: string) => string; talk: string }

const asked = `messages: [{ role: 'user', content: '${PROMPT}' }]`
const generate = `(await generateText({ model: made, prompt: '${PROMPT}' })).text`

/** By the beginning of the line. */
const AROUND: readonly (readonly [begin: string, ...Around[]])[] = [
  [
    'new OpenAI(',
    {
      dialect: 'chat',
      imports: "import OpenAI from 'openai'",
      talk: `(await made.chat.completions.create({ model: 'policy', ${asked} })).choices[0].message.content`,
    },
    {
      dialect: 'responses',
      imports: "import OpenAI from 'openai'",
      talk: `(await made.responses.create({ model: 'policy', input: '${PROMPT}' })).output_text`,
    },
  ],
  [
    'new Anthropic(',
    {
      dialect: 'messages',
      imports: "import Anthropic from '@anthropic-ai/sdk'",
      talk: `(await made.messages.create({ model: 'policy', max_tokens: 100, ${asked} })).content[0].text`,
    },
  ],
  [
    'createOpenAI(',
    {
      dialect: 'responses',
      imports: "import { createOpenAI } from '@ai-sdk/openai'\nimport { generateText } from 'ai'",
      talk: generate,
    },
  ],
  [
    'createOpenAICompatible(',
    {
      dialect: 'chat',
      imports: "import { createOpenAICompatible } from '@ai-sdk/openai-compatible'\nimport { generateText } from 'ai'",
      talk: generate,
    },
  ],
  [
    'new ChatOpenAI(',
    {
      dialect: 'chat',
      imports: "import { ChatOpenAI } from '@langchain/openai'",
      talk: `(await made.invoke('${PROMPT}')).text`,
    },
  ],
  [
    'new OpenAIProvider(',
    {
      dialect: 'responses',
      imports: "import { Agent, OpenAIProvider, Runner } from '@openai/agents'\nimport OpenAI from 'openai'",
      before: (url) => `const client = new OpenAI({ baseURL: '${url}/v1', apiKey: 'none' })`,
      talk: `(await new Runner({ modelProvider: made, tracingDisabled: true }).run(new Agent({ name: 'clock', model: 'policy' }), '${PROMPT}')).finalOutput`,
    },
  ],
]

/** A module in its own process, with the libraries installed. */
const runModule = async (text: string, place: Place): Promise<Ran> => {
  await symlink(path.resolve(import.meta.dirname, '../node_modules'), path.join(place.work, 'node_modules'), 'junction')
  const file = path.join(place.work, 'snippet.mjs')
  await writeFile(file, text)
  return runProgram(file, [], place, {})
}

const printed = (value: string): string => `process.stdout.write(String(${value}))\n`
const linesOf = ({ text }: Block): string[] => text.split('\n').filter((line) => line !== '' && !line.startsWith('//'))

for (const line of linesOf(await blockOf('Libraries', ADDRESS))) {
  const [begin, ...around] = AROUND.find(([start]) => line.startsWith(start)) ?? [line]
  if (around.length === 0)
    test(`docs/agents.md, ${begin}: a program tests the snippet`, () =>
      assert.fail('no program is written for this line'))
  for (const { dialect, imports, before = () => '', talk } of around) {
    test(`docs/agents.md, ${begin}…), ${dialect}: the snippet gives an answer, and the turn is in one session`, () =>
      inPlace(async (scene, place) => {
        const made = `const made =\n${line.replaceAll(ADDRESS, scene.url)}\n`
        await assertTold(scene, await runModule(`${imports}\n${before(scene.url)}\n${made}${printed(talk)}`, place), {
          dialect,
          source: 'fingerprint',
        })
      }))
  }
}

test('README.md: the TypeScript program gives an answer, and the feedback of docs/use.md counts', () =>
  inPlace(async (scene, place) => {
    const first = (await blocksOf('README.md', scene.url)).find(({ language }) => language === 'ts')!
    await assertTold(scene, await runModule(`${first.text}${printed('answer.choices[0].message.content')}`, place), {
      dialect: 'chat',
      source: 'fingerprint',
    })
    const {
      turns: [turn],
    } = await scene.story()
    const curl = (await blocksOf('docs/use.md', scene.url)).find(({ text }) => text.startsWith('curl '))!.text
    const { code, stdout, stderr } = await runProgram(
      '/bin/sh',
      ['-c', curl.replace('"…"', `"${turn!.event.turn}"`)],
      place,
      {},
    )
    assert.equal(code, 0, stderr)
    const [given, ...more] = await feedbackOf(scene.rig.log)
    assert.deepEqual([given?.turn, given?.value, more], [turn!.event.turn, -1, []], stdout)
  }))
