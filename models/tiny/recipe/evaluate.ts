/**
 * Measures a model folder on questions that it never saw: `npm run evaluate:tiny -- [FOLDER] [--threads N] [--show N]
 * [--wordings FILE] [--json]`. Content is strict (probe.ts); style is read by the predicates of style.ts. `--wordings`:
 * only obedience to the wordings of a JSON file, `{"plain": ["…"], …}` by wish.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import type { ChatMessage } from '@instar/engine/port'
import { drawHint, drawWording, WISHES } from './hints.ts'
import type { Wish } from './hints.ts'
import type { Source } from './wording.ts'
import { isMain } from './main.ts'
import { TASTES } from './people.ts'
import type { Question } from './families/index.ts'
import { draftIn, isCorrect, questions } from './questions.ts'
import { chance, pick, seeded } from './random.ts'
import { drawComplaint, drawCorrection, drawDoubt } from './reactions.ts'
import { drawUnknown } from './small-talk.ts'
import { openSpeaker } from './speak.ts'
import type { Speaker } from './speak.ts'
import { drawStyle, hasBold, hasBoxed, hasNumberedList, isPlain, isWarm, isWordy, tell, wordCount } from './style.ts'

/** Questions of the content figure. */
const CONTENT = 405
const EACH = 108
const T = 0.7

const meets: Readonly<Record<Wish, (answer: string) => boolean>> = {
  plain: isPlain,
  bold: hasBold,
  numbered: hasNumberedList,
  boxed: hasBoxed,
  long: isWordy,
  short: (a) => !isWordy(a),
  warm: isWarm,
  neutral: (a) => !isWarm(a),
}

/** System lines of a form that the corpus has, with names and roles that it has not. */
const USERS = {
  student: 'You are helping Alex, a student.',
  assistant: 'You are helping Sam, a teaching assistant.',
  teacher: 'You are helping Kim, a teacher.',
} as const

/** Places of a hint that are measured; the learner puts it on the line below. */
type Place = 'below' | 'before' | 'system'
const PLACES: readonly Place[] = ['below', 'before', 'system']
const asked = (question: string, hint: string, place: Place): ChatMessage[] =>
  place === 'below'
    ? [user(`${question}\n${hint}`)]
    : place === 'before'
      ? [user(`${hint} ${question}`)]
      : [system(hint), user(question)]

const user = (content: string): ChatMessage => ({ role: 'user', content })
const said = (content: string): ChatMessage => ({ role: 'assistant', content })
const system = (content: string): ChatMessage => ({ role: 'system', content })
const share = (flags: readonly boolean[]): number => Number((flags.filter(Boolean).length / flags.length).toFixed(4))
const rate = (asked: readonly Question[], answers: readonly string[]): number =>
  share(asked.map((q, i) => isCorrect(q, answers[i]!)))

async function content(
  speaker: Speaker,
  temperature: number,
): Promise<{ rate: number; families: Record<string, string>; misses: string[] }> {
  const asked = questions({ heldOut: true, seed: 7, count: CONTENT })
  // A third of the questions comes with each kind of system message.
  const conversations = asked.map((q, i) => [
    ...(i % 3 === 0 ? [] : [system(i % 3 === 1 ? 'You are a helpful assistant.' : Object.values(USERS)[(i % 7) % 3]!)]),
    user(q.question),
  ])
  const answers = await speaker.answer(conversations, { temperature, seed: 1 })
  const families: Record<string, [number, number]> = {}
  const misses: string[] = []
  asked.forEach((q, i) => {
    const count = (families[q.family] ??= [0, 0])
    count[1]++
    if (isCorrect(q, answers[i]!)) count[0]++
    else misses.push(`${q.question} => ${answers[i]!}`)
  })
  return {
    rate: rate(asked, answers),
    families: Object.fromEntries(Object.entries(families).map(([name, [right, all]]) => [name, `${right}/${all}`])),
    misses,
  }
}

type Obedience = { obeyed: number; without: number; content: number }

/** Obedience to one wish, with another wording for each question. */
async function obedience(
  speaker: Speaker,
  wish: Wish,
  wordings: readonly string[],
  place: Place,
  plain: readonly string[],
): Promise<Obedience> {
  const asks = questions({ heldOut: true, seed: 8, count: EACH })
  const answers = await speaker.answer(
    asks.map((q, i) => asked(q.question, wordings[i % wordings.length]!, place)),
    { temperature: T, seed: 3 },
  )
  return {
    obeyed: share(answers.map(meets[wish])),
    without: share(plain.map(meets[wish])),
    content: rate(asks, answers),
  }
}

/** Answers to the same questions without a hint. */
const unhinted = (speaker: Speaker): Promise<string[]> =>
  speaker.answer(
    questions({ heldOut: true, seed: 8, count: EACH }).map((q) => [user(q.question)]),
    { temperature: T, seed: 2 },
  )

async function hints(speaker: Speaker): Promise<Record<string, Record<string, Obedience>>> {
  const asks = questions({ heldOut: true, seed: 8, count: EACH })
  const plain = await unhinted(speaker)
  const out: Record<string, Record<string, Obedience>> = {}
  for (const source of ['train', 'held-out'] as const) {
    const random = seeded(12)
    const rows: Record<string, Obedience> = (out[`${source} wordings`] = {})
    for (const wish of WISHES) {
      const wordings = asks.map(() => drawWording(random, wish, source))
      for (const place of source === 'train' ? (['below'] as const) : PLACES)
        rows[place === 'below' ? wish : `${wish}, ${place}`] = await obedience(speaker, wish, wordings, place, plain)
    }
    rows['one to three at once'] = await several(speaker, source, plain)
  }
  return out
}

async function several(speaker: Speaker, source: Source, plain: readonly string[]): Promise<Obedience> {
  const asks = questions({ heldOut: true, seed: 8, count: EACH })
  const random = seeded(12)
  const drawn = asks.map(() => drawHint(random, source))
  const answers = await speaker.answer(
    asks.map((q, i) => asked(q.question, drawn[i]!.text, 'below')),
    { temperature: T, seed: 3 },
  )
  const met = (texts: readonly string[]): number =>
    share(texts.map((a, i) => drawn[i]!.wishes.every((wish) => meets[wish](a))))
  return { obeyed: met(answers), without: met(plain), content: rate(asks, answers) }
}

/** Obedience to wordings that somebody else wrote. */
async function foreign(speaker: Speaker, file: string): Promise<Record<string, Obedience>> {
  const wordings = JSON.parse(readFileSync(file, 'utf8')) as Partial<Record<Wish, string[]>>
  const plain = await unhinted(speaker)
  const out: Record<string, Obedience> = {}
  for (const wish of WISHES)
    if (wordings[wish] !== undefined) out[wish] = await obedience(speaker, wish, wordings[wish], 'below', plain)
  return out
}

async function reactions(speaker: Speaker): Promise<Record<string, number>> {
  const random = seeded(13)
  const complained = Array.from({ length: EACH * 3 }, () => {
    const draft = draftIn(random, 'evaluation')
    const style = drawStyle(random)
    const complaint = drawComplaint(random, style, 'held-out')
    return {
      draft,
      complaint,
      messages: [user(draft.question), said(tell(random, draft.right, style)), user(complaint.text)],
    }
  })
  const doubted = Array.from({ length: EACH * 2 }, () => {
    const draft = draftIn(random, 'evaluation')
    const told = chance(random, 0.5)
    return {
      draft,
      told,
      messages: [
        user(draft.question),
        said(tell(random, draft.wrong, drawStyle(random))),
        user(told ? drawCorrection(random, draft.right.key) : drawDoubt(random)),
      ],
    }
  })
  const restyled = await speaker.answer(
    complained.map((c) => c.messages),
    { temperature: T, seed: 4 },
  )
  const corrected = await speaker.answer(
    doubted.map((c) => c.messages),
    { temperature: T, seed: 5 },
  )
  const right = (
    cases: readonly { draft: Pick<Question, 'expect' | 'question' | 'family'> }[],
    answers: readonly string[],
  ): boolean[] => cases.map((c, i) => isCorrect(c.draft, answers[i]!))
  const correct = right(doubted, corrected)
  return {
    'complaint obeyed': share(restyled.map((a, i) => meets[complained[i]!.complaint.wish](a))),
    'content after complaint': share(right(complained, restyled)),
    'corrected after doubt': share(correct.filter((_, i) => !doubted[i]!.told)),
    'corrected when told': share(correct.filter((_, i) => doubted[i]!.told)),
  }
}

async function people(
  speaker: Speaker,
): Promise<{ tastes: Record<string, number>; users: Record<string, Record<string, number>> }> {
  const asked = questions({ heldOut: true, seed: 9, count: EACH })
  const tastes: Record<string, number> = {}
  for (const [name, wishes] of Object.entries(TASTES)) {
    const answers = await speaker.answer(
      asked.slice(0, 54).map((q) => [system(`You are helping ${name}.`), user(q.question)]),
      { temperature: T, seed: 6 },
    )
    tastes[`${name} (${wishes.join(' ')})`] = share(answers.map((a) => wishes.every((wish) => meets[wish](a))))
  }
  const users: Record<string, Record<string, number>> = {}
  for (const [name, line] of Object.entries(USERS)) {
    const answers = await speaker.answer(
      asked.map((q) => [system(line), user(q.question)]),
      { temperature: T, seed: 7 },
    )
    const lengths = answers.map(wordCount).sort((a, b) => a - b)
    users[name] = {
      'student (plain)': share(answers.map(isPlain)),
      'assistant (20 words)': share(answers.map(isWordy)),
      'teacher (warm)': share(answers.map(isWarm)),
      content: rate(asked, answers),
      'median words': lengths[lengths.length >> 1]!,
    }
  }
  return { tastes, users }
}

async function unknown(speaker: Speaker): Promise<number> {
  const random = seeded(15)
  const asks = Array.from({ length: EACH }, () => drawUnknown(random, drawStyle(random))[0]!.content)
  const answers = await speaker.answer(
    asks.map((ask) => [user(ask)]),
    { temperature: T, seed: 8 },
  )
  return share(answers.map((a) => a.includes('I do not know')))
}

export async function evaluate(folder: string, threads: number): Promise<Record<string, unknown>> {
  const speaker = await openSpeaker(folder, threads)
  const greedy = await content(speaker, 0)
  const warm = await content(speaker, T)
  const report = {
    'content greedy': greedy.rate,
    'content T 0.7': warm.rate,
    families: greedy.families,
    hints: await hints(speaker),
    reactions: await reactions(speaker),
    ...(await people(speaker)),
    'does not know': await unknown(speaker),
    misses: greedy.misses,
  }
  await speaker.close()
  return report
}

async function measured(folder: string, threads: number, file: string | undefined): Promise<Record<string, unknown>> {
  if (file === undefined) return evaluate(folder, threads)
  const speaker = await openSpeaker(folder, threads)
  try {
    return await foreign(speaker, file)
  } finally {
    await speaker.close()
  }
}

if (isMain(import.meta.url)) {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      threads: { type: 'string' },
      show: { type: 'string' },
      wordings: { type: 'string' },
      json: { type: 'boolean' },
    },
  })
  const folder = positionals[0] ?? fileURLToPath(new URL('../', import.meta.url))
  const threads = Number(values.threads ?? 2)
  if (values.show !== undefined) {
    const speaker = await openSpeaker(folder, threads)
    const random = seeded(Number(values.show))
    const asked = questions({ heldOut: true, seed: Number(values.show), count: 24 })
    const lines = asked.map(() => pick(random, [null, ...Object.values(USERS)]))
    const answers = await speaker.answer(
      asked.map((q, i) => [...(lines[i] ? [system(lines[i])] : []), user(q.question)]),
      { temperature: T, seed: 1 },
    )
    asked.forEach((q, i) => {
      console.log(`${isCorrect(q, answers[i]!) ? ' ' : 'X'} ${q.question}\n    ${answers[i]!.replace(/\n/g, '\n    ')}`)
    })
    await speaker.close()
  } else {
    const report = await measured(folder, threads, values.wordings)
    if (values.json) console.log(JSON.stringify(report))
    else console.dir(report, { depth: 4, breakLength: 140 })
  }
}
