/**
 * Multiple choice of lm-eval over `/v1/completions`: the log-probs of the echoed prompt equal those of the built-in
 * engine. Its text completion (`generate_until`) is compared with the same model.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { glob, mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { openModel, startServing } from '@instar/policy'
import { startRig, turnsOf } from '../../kit/gateway.ts'
import { makePlace, runProgram, type Place } from '../program.ts'
import { NO_PYTHON, pythonClients } from '../python/programs.ts'

const MODEL = path.resolve(import.meta.dirname, '../../../models/tiny')
const pins = readFileSync(new URL('../python/lm-eval.in', import.meta.url), 'utf8')
const VERSION = /^lm-eval\[api\]==(.*)$/m.exec(pins)![1]!
const programs = pythonClients('lm-eval.txt')

const DOCS = [
  { question: 'What is the capital of France?', choices: ['Paris', 'Rome', 'an old red chair'], answer: 0 },
  { question: 'What is the capital of Italy?', choices: ['Paris', 'Rome', 'Oslo'], answer: 1 },
  { question: 'What colour is the sky?', choices: ['Blue', 'Seven'], answer: 0 },
  { question: 'How many legs has a cat?', choices: ['Four', 'Green', 'Rome', 'Two'], answer: 0 },
]
const promptOf = (question: string): string => `Question: ${question}\nAnswer:`

/** In the format that lm-eval reads. */
const task = (name: string, file: string, rest: string): string => `task: ${name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: ${file}
test_split: test
doc_to_text: "Question: {{question}}\\nAnswer:"
${rest}
metadata:
  version: 1.0
`

const prepare = async ({ work }: Place): Promise<void> => {
  const file = path.join(work, 'questions.jsonl')
  await writeFile(file, DOCS.map((doc) => `${JSON.stringify(doc)}\n`).join(''))
  await mkdir(path.join(work, 'tasks'))
  const choice = `output_type: multiple_choice
doc_to_choice: "{{choices}}"
doc_to_target: "{{answer}}"
metric_list:
  - metric: acc`
  const words = `output_type: generate_until
doc_to_target: "{{choices[answer]}}"
generation_kwargs:
  until: ["\\n"]
  max_gen_toks: 8
metric_list:
  - metric: exact_match`
  await writeFile(path.join(work, 'tasks/choice.yaml'), task('choice', file, choice))
  await writeFile(path.join(work, 'tasks/words.yaml'), task('words', file, words))
}

type Sample = {
  doc_id: number
  resps: [[string, string] | string][]
  filtered_resps: unknown
  acc?: number
}

const samplesOf = async (folder: string, name: string): Promise<Sample[]> => {
  for await (const file of glob(`**/samples_${name}_*.jsonl`, { cwd: folder }))
    return (await readFile(path.join(folder, file), 'utf8'))
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as Sample)
      .toSorted((a, b) => a.doc_id - b.doc_id)
  throw new Error(`lm-eval wrote no samples of ${name}`)
}

test(
  `lm-eval ${VERSION}, local-completions: each choice has the log-prob of the engine, greedy texts match, and nothing is captured`,
  { skip: programs === null ? NO_PYTHON : false },
  async () => {
    const model = await openModel(MODEL)
    const engine = await startServing({ model: MODEL, rows: 4, slots: 2, threads: 1 })
    const rig = await startRig({ ports: { engine, model } })
    const place = await makePlace()
    try {
      await prepare(place)
      const modelArgs = Object.entries({
        base_url: `${rig.url}/v1/completions`,
        model: 'policy',
        tokenizer: MODEL,
        tokenizer_backend: 'huggingface',
        num_concurrent: 2,
        max_retries: 1,
        max_length: model.contextLength,
      })
        .map(([name, value]) => `${name}=${value}`)
        .join(',')
      const ran = await runProgram(
        path.join(programs!, 'lm_eval'),
        `--model local-completions --include_path tasks --tasks choice,words --log_samples --output_path out --model_args ${modelArgs}`.split(
          ' ',
        ),
        place,
        { HF_HUB_OFFLINE: '1', HF_DATASETS_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1', OPENAI_API_KEY: 'none' },
        300_000,
      )
      assert.equal(ran.code, 0, ran.stderr)
      const out = path.join(place.work, 'out')
      const choices = await samplesOf(out, 'choice')
      assert.equal(choices.length, DOCS.length)
      for (const [i, { resps, acc }] of choices.entries()) {
        const { question, choices: texts, answer } = DOCS[i]!
        const prompt = model.encode(promptOf(question))
        const own: number[] = []
        for (const [j, text] of texts.entries()) {
          const whole = model.encode(`${promptOf(question)} ${text}`)
          assert.deepEqual(whole.slice(0, prompt.length), prompt)
          const completion = whole.slice(prompt.length)
          const scored = await engine.score({ prompt, completion, adapter: null, temperature: 1 })
          own.push(scored.reduce((sum, logprob) => sum + logprob, 0))
          const [said] = resps[j]![0] as [string, string]
          assert.ok(Math.abs(Number(said) - own[j]!) < 1e-4, `${question} ${text}: ${said}, not ${own[j]}`)
        }
        assert.equal(acc, Number(own.indexOf(Math.max(...own)) === answer), question)
      }
      const words = await samplesOf(out, 'words')
      for (const [i, { resps }] of words.entries()) {
        const { choices: said } = await rig.client.completions.create({
          model: 'policy',
          prompt: promptOf(DOCS[i]!.question),
          temperature: 0,
          max_tokens: 8,
          stop: ['\n'],
        })
        assert.equal(resps[0]![0], said[0]!.text)
      }
      assert.deepEqual(await turnsOf(rig.log), [])
    } finally {
      await rig.stop()
      await engine.close()
      await place.remove()
    }
  },
)
