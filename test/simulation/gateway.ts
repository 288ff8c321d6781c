/** A gateway: its real index, resolver and admin core; generation is a random text. */
import { answerKey, derivedId, foldWeights, InstarError, initialWeights, lastAnswer, OldestFirst, storeBody, turnId, weightLine, type Event, type FeedbackGiven, type Logged, type TurnsEvent, type WeightsEvent, type MemoryWeights } from '@instar/events'
import { decideAdmin, type Ordered } from '@instar/gateway/core/admin'
import { newSession, subjectOf } from '@instar/gateway/core/labels'
import { answersOf, choose, locate, nameUnknown, settled, type Asked } from '@instar/gateway/core/resolve'
import { evolveIndex, initialIndex, restore, sessionState, touch, type SessionIndex } from '@instar/gateway/core/session-index'
import { aborted, captured, digestOf, type Admitted } from '@instar/gateway/core/turn'
import { Process } from './process.ts'
import type { Folds } from './rules.ts'
import { POLICY } from './services.ts'
import type { Ends } from './sim-log.ts'
import type { World } from './world.ts'

export type Said = { role: 'user' | 'assistant'; content: string }
export type Answer = { session: string; turn: string; text: string }
type State = { index: SessionIndex; weights: MemoryWeights }

type ChatCall = { kind: 'chat'; messages: Said[]; label: string | null; ends: Ends; waited: boolean; gone: boolean; answer: (answer: Answer) => void }
type FeedbackCall = { kind: 'feedback'; id: string; session: string; turn: string | null; value: number; ends: Ends; waited: boolean; done: (known: boolean) => void }
type AdminCall = { kind: 'admin'; ordered: Ordered; ends: Ends; pending: boolean; done: (refused: string | null) => void }
export type Call = ChatCall | FeedbackCall | AdminCall


const copyOf = <V>(entries: OldestFirst<string, V>): OldestFirst<string, V> => {
  const copy = new OldestFirst<string, V>()
  for (const key of entries.keys()) copy.set(key, structuredClone(entries.get(key)!))
  return copy
}

export class Gateway extends Process<State> {
  calls: Call[] = []
  #attempts = new Map<string, number>()
  constructor(world: World, name: string) { super(world, name, ['turns', 'weights']) }
  fresh(): State { return { index: initialIndex({ sessions: this.world.remembered, turns: 1000 }), weights: initialWeights() } }
  override copy({ index: { recent, forgotten, ...index }, weights }: State): State {
    return { index: { ...structuredClone(index), recent: copyOf(recent), forgotten: copyOf(forgotten) }, weights: structuredClone(weights) }
  }
  folds(): Folds { return { turns: this.state.index.fold, weights: this.state.weights } }
  evolve(logged: Logged<Event>): void {
    if (logged.topic === 'turns') evolveIndex(this.state.index, logged as Logged<TurnsEvent>)
    else foldWeights(this.state.weights, logged as Logged<WeightsEvent>)
  }
  forget(): void {
    this.calls = []
    this.#attempts.clear()
  }

  waits(): string | null { return this.calls.length === 0 ? null : `${this.calls.length} calls` }

  /** Takes a request: what is on the log now, it can wait for. */
  get ends(): Ends { return this.world.log.ends(this.topics) }

  act(): boolean {
    if (this.calls.length === 0) return false
    const call = this.world.random.pick(this.calls)
    const done = call.kind === 'chat' ? this.#chat(call) : call.kind === 'feedback' ? this.#feedback(call) : this.#admin(call)
    if (done) this.calls = this.calls.filter((other) => other !== call)
    return true
  }

  /** A forgotten session is read again from the log. */
  #restore(session: string): void {
    const records = this.world.log.all('turns').filter((logged) => logged.key === session) as Logged<TurnsEvent>[]
    restore(this.state.index, session, records)
  }

  #chat(call: ChatCall): boolean {
    const { random, now } = this.world
    const { index } = this.state
    const { messages } = call
    const digest = digestOf({ messages, tools: [] })
    const answers = answersOf(messages)
    const last = answers.at(-1)
    const asked: Asked = { key: null, label: call.label === null ? null : { source: 'header', value: call.label }, messages, answers, digest, before: last ? digestOf({ messages: messages.slice(0, last.at), tools: [] }) : null, subject: null }
    let step = locate(index, asked)
    for (; step.do === 'restore'; step = locate(index, asked)) this.#restore(step.session)
    const requests = step.do === 'compare' ? step.candidates.map(({ turn }) => this.world.bodies.get(turn) ?? []) : []
    if (!settled(index, asked, step, requests) && !call.waited) {
      call.waited = this.hasRead(call.ends)
      return false
    }
    const found = step.do === 'found' ? step.resolved : step.do === 'compare' ? choose(index, asked, step.candidates, requests) : null
    const { session, source } = found ?? nameUnknown(asked, newSession(null, random.hex(16)))
    if (index.forgotten.has(session)) this.#restore(session)
    touch(index, session)
    const line = weightLine(this.state.weights, POLICY)
    const candidates = random.chance(0.1) ? 2 : 1
    const admitted: Admitted = {
      session, policy: POLICY, version: line.head, adapter: line.versions.get(line.head)?.adapter ?? null, group: random.hex(8), candidates, dialect: 'chat',
      kind: 'main', labelSource: source, userTurn: null, subject: subjectOf(null, null, session), key: null, digest, body: storeBody(Buffer.from(JSON.stringify({ messages })), null).stored,
      ...lastAnswer(messages), prompt: { from: null, prefix: 0, ids: [1], length: 1 }, tokens: 'exact', offPrefix: false, engine: 'sim', at: now,
    }
    this.#capture(call, admitted, sessionState(index, session)?.digests.get(digest)?.size ?? 0)
    return true
  }

  #capture(call: ChatCall, admitted: Admitted, attempts: number): void {
    const { random, now } = this.world
    const { messages } = call
    const answers: Answer[] = []
    for (let candidate = 0; candidate < admitted.candidates; candidate += 1) {
      const random128 = this.world.off === 'execId' ? derivedId('exec', admitted.digest, candidate, this.#attempt(admitted.digest, attempts)).slice(0, 32) : random.hex(16)
      const turn = turnId(admitted.session, random128)
      const text = `a${random.hex(4)}`
      this.world.bodies.set(turn, messages)
      const outcome = { said: { text, ids: [2], logprobs: [-1], answer: answerKey(text, []), shown: { content: text, reasoning: '', calls: [] } }, toolCallIds: [], reason: null, firstTokenAt: now, finishedAt: now }
      const own = { turn, candidate, sampling: { temperature: 1, topP: 1, topK: 0, seed: 1, maxTokens: 4, stop: [] } }
      if (call.gone && random.chance(0.5)) {
        this.append(aborted(admitted, own, outcome, 'client_gone'))
        continue
      }
      this.append(captured(admitted, own, outcome, 'stop'), () => {
        answers.push({ session: admitted.session, turn, text })
        if (answers.length === admitted.candidates) call.answer(random.pick(answers))
      })
    }
  }

  #attempt(digest: string, seen: number): number {
    const attempt = Math.max(seen, this.#attempts.get(digest) ?? 0)
    this.#attempts.set(digest, attempt + 1)
    return attempt
  }

  #feedback(call: FeedbackCall): boolean {
    const { index } = this.state
    if (index.forgotten.has(call.session)) this.#restore(call.session)
    const known = call.turn === null ? sessionState(index, call.session) !== undefined : index.fold.turns.has(call.turn)
    if (!known) {
      if (call.waited) {
        call.done(false)
        return true
      }
      call.waited = this.hasRead(call.ends)
      return false
    }
    const event: FeedbackGiven = { type: 'FeedbackGiven', id: call.id, session: call.session, turn: call.turn, value: call.value, comment: null, subject: '', key: null, at: this.world.now }
    this.append(event, () => call.done(true))
    return true
  }

  #admin(call: AdminCall): boolean {
    if (call.pending || !this.hasRead(call.ends)) return false
    try {
      const step = decideAdmin(weightLine(this.state.weights, POLICY), call.ordered, this.world.now)
      if (step.do === 'done') {
        call.done(null)
        return true
      }
      call.pending = true
      this.append(step.event, () => {
        call.pending = false
        call.ends = this.world.log.ends(['weights'])
      })
      return false
    } catch (error) {
      if (!(error instanceof InstarError) || error.code === 'log_gap') throw error
      call.done(error.code)
      return true
    }
  }
}

