/**
 * The records of the golden log: a random history whose chains go on, after and before records that fill each table of the
 * stored states: guards of the scorer, an episode, and batches on a training server.
 */
import {
  encodeEvent,
  foldUpdates,
  foldWeights,
  initialUpdates,
  initialWeights,
  topicOf,
  updateLine,
  weightLine,
  type Event,
  type JudgeVerdict,
  type Logged,
  type SentRequest,
  type UpdatesEvent,
  type WeightsEvent,
} from '@instar/events'
import { askedVerdict } from '../../services/scorer/src/core/asked-alone.ts'
import { seenVerdict } from '../../services/scorer/src/core/duplicates.ts'
import { recordVerdict } from '../../services/scorer/src/core/own-record.ts'
import { POLICIES, POLICY, randomHistory } from '../kit/histories.ts'
import { seeded } from '../kit/random.ts'
import { captured, logged, turnNamed } from '../kit/scored-history.ts'

const RECORDS = 400
/** More turns of a session than a row of the golden snapshots has. */
const LONG = 7

const digest = (letter: string): string => letter.repeat(16)
/** As `noteOf` of core/claims.ts writes it. */
const claimed = (value: string, person: string): JudgeVerdict => ({
  judge: 'values',
  value: null,
  note: `withheld: value ${digest(value)} of question ${digest('9')} by ${digest(person)}; 1 of 2 people`,
})
const verdictsOf = (n: number, person: string): JudgeVerdict[] => [
  { judge: 'j', value: 1, note: 'n' },
  seenVerdict(digest(String(n % 2))),
  recordVerdict({ praise: n % 3 > 0, words: 10 + n, form: n % 2 ? '0101' : '0000' }, digest(person)),
  askedVerdict(digest('8'), { subject: digest(person), key: n % 2 ? null : digest(`${n % 5}`) }),
  claimed(String(n % 4), person),
]

/** A long session with scores of both policies, and an episode without an outcome and one with. `people`: who scores. */
const guarded = (name: string, people: readonly string[], from: number): Event[] => {
  const events: Event[] = []
  for (let n = 0; n < LONG; n += 1) {
    const at = from + 10 * n
    const messages = [{ role: 'user' as const, content: `${n}` }]
    const turn = captured({ session: name, messages, answer: `Yes ${n}.`, at, name: `${n}`, subject: 'ann' })
    events.push({ ...turn, key: `key ${n % 2}` })
    for (const policy of POLICIES)
      events.push({
        type: 'TurnScored',
        turn: turn.turn,
        session: name,
        policy,
        version: 0,
        subject: 'ann',
        cause: 'c',
        at: at + 5,
        verdicts: verdictsOf(n, people[n % people.length]!),
        rank: null,
        reward: 1,
        judge: 'j',
        hint: null,
        hintJudge: null,
      })
  }
  for (const [session, outcome] of [
    [`${name} open`, null],
    [`${name} ended`, 0.5],
  ] as const) {
    const said = { session, messages: [{ role: 'user' as const, content: session }], at: from }
    const turns = ['a', 'b'].map((answer) => ({ ...captured({ ...said, answer, name: answer }), task: 't' }))
    events.push(...turns)
    const open = turns.map(({ turn }) => turn)
    if (outcome !== null)
      events.push({ type: 'SessionClosed', session, open, why: 'client', outcome, task: 't', at: from + 1 })
  }
  return events
}

/** Chains are appended to at their tips, as the folds have them. */
class Chains {
  readonly events: Event[] = []
  readonly #updates = initialUpdates()
  readonly #weights = initialWeights()

  tip(topic: 'updates' | 'weights', policy: string): string {
    return (topic === 'updates' ? updateLine(this.#updates, policy) : weightLine(this.#weights, policy)).chain.tip
  }

  /** Returns the record's id. */
  append(event: Event): string {
    const record = logged(event, this.events.push(event))
    if (record.topic === 'updates') foldUpdates(this.#updates, record as Logged<UpdatesEvent>)
    if (record.topic === 'weights') foldWeights(this.#weights, record as Logged<WeightsEvent>)
    return record.id
  }
}

/**
 * A batch on a training server, of the turns of a session; `outcome` null: its step was requested and the journal ends there.
 * Returns the id of its update.
 */
const remoteBatch = (chains: Chains, name: string, number: number, at: number, ended: boolean): string => {
  const common = () => ({ prev: chains.tip('updates', POLICY), policy: POLICY, at: (at += 1) })
  const model = `model ${number}`
  const parent = { version: 0, adapter: null, state: null }
  const bound = chains.append({
    type: 'TrainerBound',
    ...common(),
    epoch: number,
    trainer: `t${number}`,
    url: 'http://trainer:8000',
    capabilities: '{}',
    base: { name: 'm', sha256: 'x' },
    baseModel: 'm',
    session: `session ${number}`,
    model,
    reference: 'reference',
    parent,
    statePath: null,
    rank: 8,
    seed: 1,
  })
  const turns = Array.from({ length: LONG }, (_, n) => turnNamed(name, `${n}`))
  const batch = chains.append({
    type: 'BatchSealed',
    ...common(),
    number,
    parent,
    items: turns.map((turn) => ({
      turn,
      session: name,
      subject: 'ann',
      version: 0,
      record: 'r',
      score: 's',
      reward: 1,
      baseline: 0,
      advantage: 1,
      hint: null,
    })),
    dropped: [],
    baselines: [{ subject: 'ann', value: 0.5, count: number }],
    seed: 1,
    loss: 'hybrid',
    settings: { learningRate: 1e-4 },
  })
  let seq = 0
  const request = (kind: string, of: SentRequest['of']): SentRequest => ({
    kind,
    of,
    seq: (seq += 1),
    sha256: 'q',
    response: null,
  })
  const of = { batch, number, bound, model }
  const rows = turns.map((turn) => ({ turn, tokens: 2 }))
  const blob = { sha256: 'b', bytes: 8 }
  for (const pass of ended ? [0, 1] : [0]) {
    chains.append({
      type: 'TrainerScored',
      ...common(),
      ...of,
      pass,
      requests: [request('forward', 'trained'), request('forward', 'reference')],
      rows,
      dropped: [],
      logprobs: blob,
      base: pass === 0 ? blob : null,
      teacher: null,
      blobsAt: at,
      figures: { klParent: 0.5 },
    })
    chains.append({
      type: 'UpdateRequested',
      ...common(),
      ...of,
      pass,
      requests: [request('forward_backward', 'trained'), request('optim_step', 'trained')],
      figures: { loss: 0.5 },
    })
  }
  if (!ended) return ''
  return chains.append({
    type: 'UpdateComputed',
    ...common(),
    batch,
    number,
    adapter: 'a',
    adapterBytes: 1,
    state: 's',
    stateBytes: 1,
    blobsAt: at,
    fingerprint: { engine: 'e', build: 'b', isa: 'i', threads: 1, base: 'm' },
    figures: { loss: 0.5 },
    remote: {
      bound,
      model,
      statePath: 'weights',
      adapterPath: 'sampler_weights',
      requests: [request('save_weights', 'trained')],
      archive: 'f',
      tensors: 'g',
      tensorCount: 2,
      config: 'h',
      rows,
      logprobs: blob,
      logprobsAt: at,
      baseLogprobs: blob,
      baseAt: at,
    },
    startedAt: at,
  })
}

/**
 * The random history, of whose chains each record that followed the last one follows the tip: in the random history the
 * first record of a late writer ends its chain.
 */
const appendHistory = (chains: Chains): void => {
  /** By id, and of each chain the last id, in the random history. */
  const ids = new Map<string, string>()
  const last = new Map<string, string>()
  const written = new Map<Event, Event>()
  const renamed = (id: string): string => ids.get(id) ?? id
  for (const event of randomHistory(seeded(16), RECORDS).events) {
    const topic = topicOf(event)
    const before = written.get(event)
    if (before || (topic !== 'updates' && topic !== 'weights')) {
      chains.append(before ?? event)
      continue
    }
    const { policy, prev } = event as UpdatesEvent | WeightsEvent
    const chain = `${topic} ${policy}`
    const linked = {
      ...event,
      prev: prev === (last.get(chain) ?? '') ? chains.tip(topic, policy) : renamed(prev),
      ...('batch' in event ? { batch: renamed(event.batch) } : {}),
      ...('update' in event ? { update: renamed(event.update) } : {}),
    } as Event
    const { id } = encodeEvent(event)
    ids.set(id, chains.append(linked))
    last.set(chain, id)
    written.set(event, linked)
  }
}

export const goldenHistory = (): Event[] => {
  const chains = new Chains()
  for (const event of guarded('before', ['a', 'b', 'a'], 100)) chains.append(event)
  const update = remoteBatch(chains, 'before', 1001, 200, true)
  appendHistory(chains)
  for (const event of guarded('after', ['b', 'c'], 10_000)) chains.append(event)
  chains.append({
    type: 'VersionPublished',
    prev: chains.tip('weights', POLICY),
    policy: POLICY,
    number: 1001,
    update,
    adapter: 'a',
    adapterBytes: 1,
    state: 's',
    blobsAt: 200,
    parent: 0,
    why: 'update',
    source: null,
    figures: { content: 0.5 },
    at: 10_100,
  })
  remoteBatch(chains, 'after', 1002, 10_200, false)
  return chains.events
}
