/**
 * The probes that a base is asked at line start, and the prompts on which every candidate is sampled. Own probes come
 * first: a file or folder named in the settings, else `probes.jsonl` or the folder `probes` beside the model. The battery that ships
 * (models/probes) follows where they are fewer than a line keeps.
 */
import { createHash } from 'node:crypto'
import { readdirSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { InstarError } from '@instar/events'
import { readRegularFile } from '@instar/events/regular-file'
import type { ChatMessage } from '@instar/engine/port'
import { z } from 'zod'
import { publisherConfig, type PublisherConfig } from '../config.ts'
import { compileCheck, compileExpectation, type Check } from './checks.ts'
import { createProbeJudge, type AskJudge } from './probe-judge.ts'

/** `id`: 12 hex digits of a hash of messages and check. `maxTokens`: limit of an answer. */
export type Probe = { id: string; kind: string; messages: readonly ChatMessage[]; maxTokens: number; check: Check }

/**
 * `prompts`: the fixed ones for KL, length and entropy. `own`: how many of the probes are not of the shipped battery.
 */
export type ProbeSet = { probes: readonly Probe[]; prompts: readonly (readonly ChatMessage[])[]; own: number }

export const NO_PROBES: ProbeSet = { probes: [], prompts: [], own: 0 }

const SHIPPED = fileURLToPath(new URL('../../../../models/probes', import.meta.url))
const PROMPTS = 'prompts.jsonl'
/** Longest answer to a probe without `max_tokens`, and to one of models/tiny's form. */
const MAX_TOKENS = 24
const MAX_TOKENS_QUESTION = 64

const messages = z.array(z.looseObject({ role: z.enum(['system', 'user', 'assistant']), content: z.string() })).min(1)
const probeLine = z.strictObject({
  kind: z.string().min(1).default('own'),
  messages,
  check: z.unknown(),
  max_tokens: z.int().positive().max(256).default(MAX_TOKENS),
})
const questionLine = z.object({ question: z.string().min(1), family: z.string().default('own'), expect: z.unknown() })
const promptLine = z.strictObject({ messages })

const idOf = (value: unknown): string => createHash('sha256').update(JSON.stringify(value)).digest('hex').slice(0, 12)

const parsed = <T>(schema: z.ZodType<T>, value: unknown): T => {
  const result = schema.safeParse(value)
  if (result.success) return result.data
  const [issue] = result.error.issues
  throw new RangeError(`${issue?.path.join('.') || 'the line'}: ${issue?.message ?? 'invalid'}`)
}

const probeOf = (value: unknown, ask: AskJudge | null): Probe => {
  if (typeof value === 'object' && value !== null && 'question' in value) {
    const { question, family, expect } = parsed(questionLine, value)
    const asked = [{ role: 'user', content: question }]
    const check = compileExpectation(expect)
    return { id: idOf([asked, expect]), kind: family, messages: asked, maxTokens: MAX_TOKENS_QUESTION, check }
  }
  const { kind, messages: asked, check, max_tokens: maxTokens } = parsed(probeLine, value)
  const compiled = compileCheck(check, { messages: asked, ask })
  return { id: idOf([asked, check]), kind, messages: asked, maxTokens, check: compiled }
}

/** Bytes of a file of probes. */
const MOST_BYTES = 64 << 20

const textOf = (file: string): string => {
  try {
    return readRegularFile(file, MOST_BYTES).toString('utf8')
  } catch (cause) {
    throw new InstarError('bad_probes', `${file}: ${(cause as Error).message}`, { file }, { cause })
  }
}

/** The lines of a JSONL file; empty ones are skipped. Throws `bad_probes` with file, line and reason. */
const readLines = <T>(file: string, parse: (value: unknown) => T): T[] =>
  textOf(file)
    .split('\n')
    .flatMap((line, i) => {
      if (line.trim() === '') return []
      try {
        return [parse(JSON.parse(line))]
      } catch (cause) {
        const reason = (cause as Error).message
        throw new InstarError('bad_probes', `${file}, line ${i + 1}: ${reason}`, { file, line: i + 1 }, { cause })
      }
    })

/**
 * The probes of a file, or of the `*.jsonl` files of a folder in the order of their names. `ask`: the judge of checks by
 * a judge; null: none. Throws `bad_probes`.
 */
export const readProbes = (target: string, ask: AskJudge | null = null): Probe[] => {
  const stats = statSync(target, { throwIfNoEntry: false })
  if (!stats) throw new InstarError('bad_probes', `${target} does not exist.`, { file: target })
  const files = stats.isDirectory()
    ? readdirSync(target)
        .filter((name) => name.endsWith('.jsonl') && name !== PROMPTS)
        .toSorted()
        .map((name) => join(target, name))
    : [target]
  const known = new Map<string, string>()
  return files.flatMap((file) =>
    readLines(file, (line) => probeOf(line, ask)).filter(({ id }) => {
      if (known.has(id)) return false
      known.set(id, file)
      return true
    }),
  )
}

/** `probes.jsonl`, else `probes`, in the model's folder; beside a GGUF file `<name>.probes.jsonl`, else `<name>.probes`. */
const besideModel = (model: string): string | null => {
  const isFolder = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false
  const stem = isFolder(model) ? join(model, 'probes') : join(dirname(model), `${basename(model, '.gguf')}.probes`)
  if (statSync(`${stem}.jsonl`, { throwIfNoEntry: false })) return `${stem}.jsonl`
  return isFolder(stem) ? stem : null
}

/** One probe of each kind in turn, so that any beginning of the list holds all kinds. Order within a kind is by id. */
export const interleaved = (probes: readonly Probe[]): Probe[] => {
  const kinds = Map.groupBy(
    probes.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    ({ kind }) => kind,
  )
  const lists = [...kinds.keys()].toSorted().map((kind) => kinds.get(kind)!)
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  return Array.from({ length: longest }, (_, i) => lists.flatMap((list) => list.slice(i, i + 1))).flat()
}

/** Throws `bad_probes`. `model`: a folder or a GGUF file. `signal`: ends requests to the judge of `config`. */
export const probesOf = (
  model: string,
  config: PublisherConfig = publisherConfig.parse({}),
  signal?: AbortSignal,
): ProbeSet => {
  const ask = config.judge ? createProbeJudge(config.judge, signal ? { signal } : {}) : null
  const file = config.probes ?? besideModel(model)
  const own = file === null ? [] : readProbes(file, ask)
  const shipped = config.battery.shipped && own.length < config.battery.kept
  const prompts =
    own.length >= config.battery.minimum
      ? own.map((probe) => probe.messages)
      : readLines(join(SHIPPED, PROMPTS), (value) => parsed(promptLine, value).messages)
  return { probes: [...own, ...(shipped ? interleaved(readProbes(SHIPPED)) : [])], prompts, own: own.length }
}
