/** Random histories of all records that a log may have: late, repeated, stale and malformed ones among good ones. */
import { answerKey, encodeEvent, written, type Event, type ScoredFacts, type TurnCaptured } from '@instar/events'
import { captured, feedback, turnNamed } from './scored-history.ts'
import type { Random } from './random.ts'

export const POLICY = 'policy'
export const POLICIES = [POLICY, `${POLICY}~again`] as const
export const SUBJECTS = ['ann', 'bob', ''] as const
const ANSWERS = ['Yes.', 'No.', 'Maybe, who knows.'] as const

/** What has been written, which later records refer to. */
type Written = {
  turns: TurnCaptured[]
  updates: string[]
  batches: string[]
  sealed: number
  versions: number
  tips: Map<string, string[]>
  feedback: number
  requests: string[]
}

const append = (past: Written, chain: string, event: Event): Event => {
  past.tips.set(chain, [...(past.tips.get(chain) ?? []), encodeEvent(event).id])
  return event
}

/** `prev`: usually the last record, sometimes an earlier one, as of a late writer. */
const prevOf = (random: Random, past: Written, chain: string): string => {
  const ids = past.tips.get(chain) ?? []
  return (random.chance(0.9) || ids.length === 0 ? ids.at(-1) : random.pick(ids)) ?? ''
}

const turnOf = (random: Random, past: Written, at: number): Event => {
  const old = past.turns.length > 0 && random.chance(0.7) ? random.pick(past.turns) : undefined
  const session = old && random.chance(0.8) ? old.session : `s${random.below(40)}`
  const before = past.turns.filter((turn) => turn.session === session).at(-1)
  const retry = before && random.chance(0.15) ? before : undefined
  const turn: TurnCaptured = {
    ...captured({
      session,
      messages: [{ role: 'user', content: `${random.below(1000)}` }],
      answer: random.pick(ANSWERS),
      at,
      name: random.hex(4),
      policy: random.chance(0.95) ? POLICY : 'other',
      task: random.pick([null, null, '', 'sort']),
      subject: random.pick(SUBJECTS),
    }),
    after:
      before && random.chance(0.8)
        ? answerKey(random.chance(0.8) ? new TextDecoder().decode(before.text.bytes) : random.pick(ANSWERS), [])
        : null,
    ...(retry ? { digest: retry.digest, group: random.chance(0.5) ? retry.group : random.hex(4) } : {}),
    kind: random.chance(0.1) ? 'side' : 'main',
    trainable: random.chance(0.9),
    reason: random.chance(0.1) ? 'no_tokens' : null,
    version: random.below(past.versions + 1),
    finishedAt: at - random.below(30),
  }
  past.turns.push(turn)
  if (random.chance(0.05)) return { ...turn, turn: turnNamed('another', random.hex(4)) }
  if (random.chance(0.05) && old) return { ...turn, turn: old.turn }
  if (random.chance(0.05) && before)
    return { type: 'SessionLinked', session: before.session, parent: `s${random.below(40)}`, at }
  if (random.chance(0.05) && before) return { type: 'ResponseDeleted', session: before.session, turn: before.turn, at }
  if (random.chance(0.1) && before)
    return {
      ...turn,
      type: 'TurnSampled',
      session: before.session,
      turn: turnNamed(before.session, random.hex(4)),
      group: before.group,
      candidate: 1,
      candidates: 2,
    }
  if (random.chance(0.9)) return turn
  const { finish: _, ...facts } = turn
  return { ...facts, type: 'TurnAborted', why: 'client_gone' }
}

const factsOf = ({ turns }: Written, turn: TurnCaptured): ScoredFacts => {
  const { group, candidates, key, task = null, at, finishedAt, trainable } = turn
  const own = turns.filter(({ session }) => session === turn.session)
  const earlier = at % 2 === 0 ? null : own.map((one) => one.at).filter((one) => one < at)
  const unusable = trainable ? null : 'not_trainable'
  const times = { begunAt: own[0]?.at ?? at, at, finishedAt, earlier }
  return { record: encodeEvent(turn).id, group, candidates, shown: true, key, task, unusable, ...times }
}

const scoreOf = (random: Random, past: Written, at: number): Event => {
  const scored = random.pick(past.turns)
  const { turn, session, version, subject } = scored
  const facts = {
    turn: random.chance(0.97) ? turn : `${session}.later`,
    session: random.chance(0.97) ? session : 'elsewhere',
    policy: random.chance(0.85) ? POLICY : POLICIES[1],
    version,
    subject,
    cause: 'c',
    at,
    verdicts: [{ judge: 'j', value: 1, note: 'n' }],
    rank: random.chance(0.7) ? null : { at: random.below(at + 1), id: `f${random.below(past.feedback + 1)}` },
    // A third is of an earlier build.
    of: at % 3 === 0 ? null : factsOf(past, scored),
  }
  if (random.chance(0.2)) return { type: 'TurnSkipped', reason: 'abstained', ...facts }
  const hint = random.chance(0.3) ? written(`A hint, ${random.hex(3)}`) : null
  return {
    type: random.chance(0.8) ? 'TurnScored' : 'ScoreRevised',
    reward: random.pick([1, -1, 0.25, -0]),
    judge: random.pick(['j', 'feedback']),
    hint,
    hintJudge: hint && 'j',
    ...facts,
  }
}

/** Of a session, with an outcome or without; in one record or two. */
const endOf = (random: Random, { turns }: Written, { session, key, task = null }: TurnCaptured, at: number): Event => {
  const own = turns.filter((turn) => turn.session === session)
  const outcome = random.chance(0.5) ? random.pick([1, -1, -0]) : null
  const parts = outcome === null ? 1 : 1 + random.below(2)
  return {
    type: 'EpisodeEnded',
    session,
    policy: random.chance(0.85) ? POLICY : POLICIES[1],
    closing: random.pick(['c', 'd']),
    outcome,
    endedAt: outcome === null ? null : at,
    task: task ?? '',
    key,
    begunAt: own[0]?.at ?? at,
    turns: outcome === null ? [] : own.map(({ turn }) => turn),
    part: random.below(parts),
    parts,
    at,
  }
}

/** Of a session, with a name of its task or without. */
const beginOf = (random: Random, { turns }: Written, { session, key }: TurnCaptured, at: number): Event => ({
  type: 'EpisodeBegun',
  session,
  policy: random.chance(0.85) ? POLICY : POLICIES[1],
  task: random.pick(['', 'sort']),
  key,
  begunAt: turns.find((turn) => turn.session === session)?.at ?? at,
  at,
})

const updateOf = (random: Random, past: Written, at: number): Event => {
  const policy = random.chance(0.8) ? POLICY : POLICIES[1]
  const chain = `updates ${policy}`
  const common = { prev: prevOf(random, past, chain), policy, at }
  const batch = past.batches.at(random.chance(0.7) ? -1 : -1 - random.below(4))
  if (!batch || random.chance(0.45)) {
    const items = Array.from({ length: random.below(4) }, () => random.pick(past.turns)).map(
      ({ turn, session, subject, version }) => ({
        turn,
        session,
        subject,
        version,
        record: random.hex(32),
        score: random.hex(32),
        reward: 1,
        baseline: -0,
        advantage: 1 / 3,
        hint: random.chance(0.3) ? written('Be brief.') : null,
      }),
    )
    const event = append(past, chain, {
      type: 'BatchSealed',
      ...common,
      number: (past.sealed += 1),
      parent: { version: 0, adapter: null, state: null },
      items,
      dropped: [{ turn: random.pick(past.turns).turn, reason: 'stale' }],
      baselines: [{ subject: random.pick(SUBJECTS), value: random.below(100) / 7, count: random.below(9) }],
      seed: 1,
      loss: 'hybrid',
      settings: { learningRate: 1e-4 },
    })
    past.batches.push(encodeEvent(event).id)
    return event
  }
  if (random.chance(0.2))
    return append(past, chain, { type: 'UpdateFailed', ...common, batch, number: 1, reason: 'no_signal' })
  const event = append(past, chain, {
    type: 'UpdateComputed',
    ...common,
    batch,
    number: 1,
    adapter: random.hex(32),
    adapterBytes: 1,
    state: random.hex(32),
    stateBytes: 1,
    blobsAt: at,
    fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
    figures: { loss: 0.5 },
    startedAt: at,
  })
  past.updates.push(encodeEvent(event).id)
  return event
}

const weightOf = (random: Random, past: Written, at: number): Event => {
  const policy = random.chance(0.8) ? POLICY : POLICIES[1]
  const chain = `weights ${policy}`
  const common = { prev: prevOf(random, past, chain), policy, at }
  const parent = random.below(past.versions + 1)
  if (!past.tips.has(chain) || random.chance(0.03))
    return append(past, chain, {
      type: 'LineStarted',
      ...common,
      mode: 'live',
      base: { name: 'm', sha256: 'x' },
      parent: null,
      settings: { content: 0.9 },
    })
  const update = past.updates.length > 0 ? random.pick(past.updates) : 'none'
  const dice = random.below(10)
  if (dice < 4)
    return append(past, chain, {
      type: 'VersionPublished',
      ...common,
      number: (past.versions += 1),
      update,
      adapter: random.hex(32),
      adapterBytes: 1,
      state: 's',
      blobsAt: at,
      parent,
      why: 'update',
      source: null,
      figures: { content: random.below(100) / 100 },
    })
  if (dice < 7)
    return append(past, chain, {
      type: 'VersionRejected',
      ...common,
      update,
      adapter: 'a',
      parent,
      reason: 'kl',
      figures: {},
      evidence: [],
    })
  const request = random.chance(0.2) && past.requests.length > 0 ? random.pick(past.requests) : random.hex(4)
  past.requests.push(request)
  if (dice < 9)
    return append(past, chain, {
      type: 'HeadMoved',
      ...common,
      from: 0,
      to: parent,
      who: 'w',
      why: 'y',
      request,
      freeze: random.chance(0.5),
    })
  return append(past, chain, { type: 'LearningFrozen', ...common, on: random.chance(0.5), who: 'w', why: 'y', request })
}

/** Queries of a fold of the history, with unknown ids among them. */
export type History = {
  events: Event[]
  sessions: string[]
  turns: string[]
  batches: string[]
  updates: string[]
  versions: number[]
  requests: string[]
}

export const randomHistory = (random: Random, count: number): History => {
  const past: Written = {
    turns: [],
    updates: [],
    batches: [],
    sealed: 0,
    versions: 0,
    tips: new Map(),
    feedback: 0,
    requests: [],
  }
  const events: Event[] = []
  for (let at = 1000; events.length < count; at += 10) {
    const dice = random.below(100)
    const some = past.turns.length > 0 ? random.pick(past.turns) : undefined
    if (!some || dice < 40) events.push(turnOf(random, past, at))
    else if (dice < 46)
      events.push(
        feedback(
          some.session,
          random.chance(0.3) ? null : random.chance(0.9) ? some.turn : `${some.session}.none`,
          1,
          at,
          `f${random.chance(0.8) ? (past.feedback += 1) : past.feedback}`,
          random.chance(0.5) ? 'Far too long.' : null,
        ),
      )
    else if (dice < 52) {
      const open = past.turns.filter(({ session }) => session === some.session).map(({ turn }) => turn)
      events.push({
        type: 'SessionClosed',
        session: some.session,
        open: random.chance(0.9) ? open : [...open, random.pick(past.turns).turn],
        why: 'idle',
        at,
      })
    } else if (dice < 54) events.push(endOf(random, past, some, at))
    else if (dice < 56) events.push(beginOf(random, past, some, at))
    else if (dice < 77) events.push(scoreOf(random, past, at))
    else if (dice < 86) events.push(updateOf(random, past, at))
    else if (dice < 94) events.push(weightOf(random, past, at))
    else events.push(random.pick(events))
  }
  const turns = events.flatMap((event) => ('turn' in event && event.turn !== null ? [event.turn] : []))
  return {
    events,
    turns: [...new Set(turns)],
    sessions: [...new Set(past.turns.map(({ session }) => session)), 'another', 'elsewhere'],
    batches: past.batches,
    updates: ['none', ...past.updates],
    versions: Array.from({ length: past.versions + 2 }, (_, i) => i),
    requests: past.requests,
  }
}
