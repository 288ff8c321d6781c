/** Assembles the gateway from its ports: the HTTP server, the log and the engine. */
import { InstarError, requireBase, weightLine } from '@instar/events'
import { adapterFromWeights } from '@instar/policy'
import { DIALECTS } from '@instar/dialects'
import { createMetrics } from '@instar/process'
import type { FastifyInstance } from 'fastify'
import type { AddressInfo } from 'node:net'
import { answerSettings, type GatewayConfig } from './config.ts'
import { checkBind } from './receive/core/guard.ts'
import { RecentRequests } from './session/core/recent-requests.ts'
import { operatorToken } from './receive/operator-token.ts'
import { Background, MOST_JOBS } from './generate/background.ts'
import { IdleQueue } from './generate/idle-queue.ts'
import { Capture } from './capture/capture.ts'
import { Cancelled } from './generate/candidate.ts'
import { answer } from './generate/completion.ts'
import { ConstraintChecks } from './generate/constraint-checks.ts'
import type { AnswerCall, AnswerPorts, AnswerReply } from './generate/context.ts'
import { within } from './generate/deadline.ts'
import { createEntrance, type Entrance } from './receive/entrance.ts'
import { RecentFeedback } from './capture/feedback.ts'
import { RunningFeedback } from './capture/running-feedback.ts'
import { createCompatRoutes } from './compat/index.ts'
import { addDashboard } from './dashboard/routes.ts'
import { dashboardPorts } from './dashboard/ports.ts'
import { MOST_LOGPROBS } from './dashboard/turn-view.ts'
import { createServer } from './receive/http.ts'
import { createKeyring } from './receive/keyring.ts'
import { cachedReader } from './session/cached-reader.ts'
import { snapshotOf } from './session/snapshot-of.ts'
import { Paced } from './session/paced.ts'
import { unreadiness, type Unready } from './admin/core/report.ts'
import { createMeter, watchGateway } from './admin/metrics.ts'
import { createRoutes } from './routes.ts'
import { Pool } from './versions/pool.ts'
import { requesting } from './generate/request.ts'
import { Running } from './generate/running.ts'
import { startTail, type Tail } from './session/tail.ts'

import type { Gateway, GatewayPorts } from './ports.ts'

export * from './config.ts'
export type { Gateway, GatewayPorts } from './ports.ts'

/** How long open responses may take to finish after the server stops. */
const LAST_BYTES_MS = 500

export const createGateway = (ports: GatewayPorts, config: GatewayConfig): Gateway => {
  const { log, engine, model, now, monotonic = () => performance.now(), random } = ports
  const { policy, tailWaitMs, gatherMs } = config
  const snapshot = snapshotOf(ports.snapshots, config, now)
  const { index } = snapshot
  const ignoredWeights = new Map<string, number>()
  const line = () => weightLine(snapshot.weights, policy)
  const pool = new Pool({
    slowLoadMs: config.slowLoadMs,
    log,
    engine,
    line,
    now,
    toAdapter: ports.toAdapter ?? adapterFromWeights,
    keep: config.keepVersions,
  })
  const onBroken = (error: Error): void => ports.onFatal?.(error)
  const held = { patienceMs: config.appendPatienceMs, maxHeld: config.maxHeld }
  // The client may send the request again at once, and that is recognised only by a turn that was read.
  const capture = new Capture({ log, now, onBroken, onAborted: () => void tail?.turnsWithin(tailWaitMs) }, held)
  const reader = cachedReader(log, index, config)
  const readings = new Paced(monotonic)
  const checks = new ConstraintChecks(monotonic)
  const running = new Running()
  const metrics = ports.metrics ?? createMetrics()
  const meter = createMeter(metrics, onBroken)
  const recentRequests = new RecentRequests()
  const idle = new IdleQueue(
    { running, monotonic, meter },
    {
      most: { judgement: config.maxJudgements, candidates: MOST_JOBS, logprobs: MOST_LOGPROBS },
      besideMs: config.besideMs,
    },
  )
  const background = new Background(
    { engine, capture, pool, idle, meter, now, random },
    { candidates: config.candidates, tokensPerHour: config.candidateTokens, patienceMs: config.candidatePatienceMs },
  )
  const keyring = createKeyring(config.keys, config.keyFile, monotonic)
  const given = { recent: new RecentFeedback(), running: new RunningFeedback(config.maxHeld) }
  let entrance: Entrance | null = null
  /**
   * The last error with which the engine reported that it is lost, null once it answers. Used for engines without a
   * health check.
   */
  const health: { lost: string | null } = { lost: null }
  let tail: Tail | null = null
  let server: FastifyInstance | null = null
  let compat: ReturnType<typeof createCompatRoutes> | null = null
  let dashboard: { stop(): void } | null = null
  let stopping = false

  const followed = (): Tail => {
    if (!tail) throw new InstarError('internal', 'the gateway was not started')
    return tail
  }

  const answerPorts = (): AnswerPorts => ({
    index,
    tail: followed(),
    reader,
    readings,
    checks,
    model,
    engine,
    random,
    policy,
    capture,
    pool,
    now,
    ...answerSettings(config),
    running,
    health,
    meter,
    recentRequests,
    background,
    idle,
  })

  const unready = (): Unready | null =>
    unreadiness({
      stopping,
      refusal: capture.outage(),
      ended: tail?.stopped() ?? null,
      // While the gateway is not ready it receives no requests, so only the engine itself can report its recovery.
      lost: engine.lost ? engine.lost() : health.lost,
      pool,
    })

  const report = () => ({
    config,
    model,
    engine,
    line: line(),
    pool,
    capture,
    index,
    reader,
    ignoredWeights,
    running: running.size,
    candidates: background.waiting(),
    judgements: idle.size('judgement'),
    bodies: entrance?.held() ?? 0,
    feedback: given.running.size,
    bad: tail?.bad() ?? 0,
    unready: unready(),
  })

  /** Throws `stopping`. */
  const admitting = (): AnswerPorts => {
    if (stopping) throw new InstarError('stopping', 'The gateway is shutting down.')
    return answerPorts()
  }
  const answerNow = async (call: AnswerCall): Promise<AnswerReply> => answer(admitting(), call)

  /** On Kafka, the version line may be created after the gateway has started. */
  const onWeights = (): void => {
    try {
      if (server && ports.base) requireBase(line(), ports.base)
    } catch (error) {
      onBroken(error as Error)
    }
    pool.wake()
  }

  const listen = async (): Promise<string> => {
    compat = createCompatRoutes({
      log,
      index,
      tail: followed(),
      reader,
      capture,
      pool,
      line,
      engine,
      model,
      policy,
      trainUnsampled: config.trainUnsampled,
      now,
      random,
      tailWaitMs,
      unready,
      answer: answerNow,
      requesting: async (call, work) =>
        requesting(admitting(), { response: call.response(), revoked: call.revoked() }, work),
      dialects: DIALECTS,
    })
    const { token, fileToken } = operatorToken(config)
    entrance = createEntrance({ config, keyring, now, monotonic, adminToken: token, random })
    server = createServer(
      config,
      entrance,
      createRoutes({
        ports: answerPorts,
        answer: answerNow,
        admitting,
        log,
        line,
        report,
        unready,
        metrics,
        feedbackGiven: given,
        compat: compat.routes,
        fileToken,
        adminWaitMs: config.adminWaitMs,
        promote: ports.promote,
        replay: ports.replay,
      }),
      random,
    )
    const branch = (name: string) => snapshot.weights.lines.get(`${policy}~${name}`)
    const parts = { policy, report, metrics, line, text: answerPorts, readings, admitting, branch }
    dashboard = addDashboard(server, dashboardPorts(ports, parts), { ...config, entrance, keyring })
    try {
      await server.listen({ host: config.host, port: config.port })
    } catch (cause) {
      throw new InstarError(
        'address_in_use',
        `The gateway cannot listen on ${config.host}:${config.port} (${(cause as NodeJS.ErrnoException).code ?? (cause as Error).message}).`,
        { port: config.port },
        { cause },
      )
    }
    const { address, port } = server.server.address() as AddressInfo
    return `http://${address.includes(':') ? `[${address}]` : address}:${port}`
  }

  /**
   * Lets running requests finish for a grace period, then cancels them and records them as aborted. Does not wait for a
   * log that refuses those records.
   */
  const drain = async (): Promise<void> => {
    await within(running.idle(), config.stopGraceMs)
    running.cut(new Cancelled('shutdown'))
    await within(running.idle(), config.appendPatienceMs + LAST_BYTES_MS)
  }

  return {
    async start() {
      checkBind(config.host, keyring.locked(), config.open)
      const parts = { log, name: policy, snapshot, reader, ignored: ignoredWeights }
      tail = await startTail({ ...parts, gatherMs, onWeights, onBroken })
      try {
        await tail.caughtUp()
        if (ports.base) requireBase(line(), ports.base)
        watchGateway(metrics, report, { log, now, read: () => followed().positions() })
        await pool.ready()
        return { url: await listen() }
      } catch (error) {
        await tail.stop()
        throw error
      }
    },
    servesHead: () => pool.servesHead(followed()),
    async stop() {
      stopping = true
      idle.stop()
      dashboard?.stop()
      await Promise.all([within(background.stop(), config.stopGraceMs + LAST_BYTES_MS), drain()])
      // A client that is still sending its request would keep the server from closing.
      const force = setTimeout(() => server?.server.closeAllConnections(), LAST_BYTES_MS)
      await server?.close()
      clearTimeout(force)
      entrance?.stop()
      await compat?.stop()
      capture.stop()
      await pool.stop()
      await tail?.stop()
    },
  }
}
