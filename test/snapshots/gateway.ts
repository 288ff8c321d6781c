/** The state of a gateway, read through its real tail. */
import { sessionIdPart } from '@instar/dialects'
import { weightLine } from '@instar/events'
import {
  nameFor,
  turnsNamed,
  type RecentSession,
  type TurnsByName,
} from '../../services/gateway/src/session/core/names.ts'
import { touch, type Limits } from '../../services/gateway/src/session/core/session-index.ts'
import { openSnapshot, type GatewaySnapshot } from '../../services/gateway/src/session/snapshot.ts'
import { startTail, type Tail } from '../../services/gateway/src/session/tail.ts'
import { openSnapshots, type EventLog } from '@instar/log'
import { POLICY, type History } from '../kit/histories.ts'

type LiveGateway = { snapshot: GatewaySnapshot; tail: Tail }

/** `folder` null: without snapshots. `save` false: it is killed after `use`. */
export const liveGateway = async <T>(
  log: EventLog,
  folder: string | null,
  limits: Limits,
  { save = true, records = 50 }: { save?: boolean; records?: number },
  use: (gateway: LiveGateway) => Promise<T>,
  snapshot: GatewaySnapshot = openSnapshot(
    folder === null ? undefined : openSnapshots(folder, { records, ms: Infinity, cacheWeight: 10 }),
    POLICY,
    limits,
  ),
): Promise<T> => {
  const tail = await startTail({
    log,
    name: 'g',
    snapshot: { ...snapshot, close: () => snapshot.close({ save }) },
    ignored: new Map(),
    onWeights: () => undefined,
    onBroken: (error) => {
      throw error
    },
  })
  try {
    await tail.caughtUp()
    return await use({ snapshot, tail })
  } finally {
    await tail.stop()
  }
}

/** Every session, looked up as by a request; the turn of each answer; the versions. */
export const gatewayView = async ({ snapshot, tail }: LiveGateway, history: History): Promise<unknown> => {
  const { index } = snapshot
  const sessions: unknown[] = []
  for (const session of history.sessions) {
    await tail.ready(session)
    touch(index, session)
    const state = index.fold.sessions.get(session)
    if (!state) continue
    const has = (turns: TurnsByName, turn: string, name: string): boolean =>
      turnsNamed(turns, nameFor(state.byId.get(turn)!.key, name)).some((one) => one.turn === turn)
    const found = state.turns.map(({ turn, answer, digest }) => [
      has(index.byLoose, turn, answer.loose),
      has(index.byAsked, turn, digest),
    ])
    sessions.push({
      session,
      turns: state.turns,
      digests: state.digests,
      feedback: state.feedback,
      lastAt: state.lastAt,
      found,
      mark: index.byMintedId.get(sessionIdPart(session)),
      at: recentOf(index.recent.get(session)),
    })
  }
  const line = weightLine(snapshot.weights, POLICY)
  return structuredClone({
    sessions,
    tip: line.chain.tip,
    head: line.head,
    frozen: line.frozen,
    versions: history.versions.map((version) => line.versions.get(version)),
    requests: history.requests.filter((request) => line.requests.has(request)),
  })
}

/** Without `seq`, of which only the order counts. */
const recentOf = (recent: RecentSession | undefined): unknown =>
  recent && { ...recent, turns: recent.turns.map(({ turn, loose, asked, at }) => ({ turn, loose, asked, at })) }

/** The number of turns that the gateway finds by answers. */
export const found = ({ snapshot: { index } }: LiveGateway): number =>
  new Set([...index.byLoose.values(), ...index.byAsked.values()].flat().map(({ turn }) => turn)).size
