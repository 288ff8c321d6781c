/**
 * Starts a gateway on a log with long sessions, sends requests of these sessions, and prints the longest holds of the
 * event loop, the CPU time and the memory as one line of JSON: `long-session.ts LOG SNAPSHOTS SESSION …`. The engine is a
 * test double. Each request appends one turn; a snapshot follows those that come `SNAPSHOT_MS` after the last one.
 */
import { openEmbeddedLog, openSnapshots } from '@instar/log'
import { createGateway, gatewayConfig } from '@instar/gateway'
import { openModel } from '@instar/policy'
import { schemaTexts } from '@instar/events'
import { randomBytes } from 'node:crypto'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { ScriptedEngine } from '../../test/kit/scripted-engine.ts'

/** `hold`: the longest, ms. `cpu`: ms of a request or of a request with a snapshot, median. */
export type LongSession = {
  readySeconds: number
  readyHold: number
  readyMiB: number
  requestHold: number
  requestCpu: number
  snapshotHold: number
  snapshotCpu: number
  referenceHold: number
  referenceCpu: number
  peakMiB: number
}

const SNAPSHOT_MS = 500
const ROUNDS = 3
/** A snapshot is due at the first of every 64 records. */
const BURST = 70
const [folder, snapshotFolder, ...sessions] = process.argv.slice(2)
if (!folder || !snapshotFolder || sessions.length === 0)
  throw new Error('usage: long-session.ts LOG SNAPSHOTS SESSION …')

const log = await openEmbeddedLog({ folder, schemas: schemaTexts() })
const model = await openModel(fileURLToPath(new URL('../../models/tiny', import.meta.url)))
let answers = 0
const gateway = createGateway(
  {
    log,
    snapshots: openSnapshots(snapshotFolder, { ms: SNAPSHOT_MS, logLine: (line) => process.stderr.write(`${line}\n`) }),
    model,
    now: Date.now,
    random: randomBytes,
    engine: new ScriptedEngine(model, () => `Answer ${(answers += 1)} now.`),
    onFatal: (error: Error) => {
      throw error
    },
  },
  gatewayConfig({ port: 0 }),
)
const delays = monitorEventLoopDelay({ resolution: 1 })
delays.enable()
const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!
const mib = (): number => Math.round(process.memoryUsage.rss() / 2 ** 20)
const round = (value: number): number => Math.round(value * 10) / 10

const startedAt = performance.now()
const { url } = (await gateway.start()) as { url: string }
const readySeconds = round((performance.now() - startedAt) / 1000)
const readyHold = round(delays.max / 1e6)
const readyMiB = mib()

type Measured = { hold: number; cpu: number; id: string }
const send = async (path: string, session: string, body: object): Promise<string> => {
  const response = await fetch(`${url}/v1/${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(session === '' ? {} : { 'x-session-id': session }) },
    body: JSON.stringify({ model: 'policy', ...body }),
  })
  const { id } = (await response.json()) as { id: string }
  if (!response.ok) throw new Error(`${response.status}`)
  return id
}
const measured = async (work: () => Promise<string>): Promise<Measured> => {
  delays.reset()
  const cpu = process.cpuUsage()
  const id = await work()
  await delay(100)
  const { user, system } = process.cpuUsage(cpu)
  return { hold: delays.max / 1e6, cpu: (user + system) / 1000, id }
}
let asked = 0
const chat = (session: string): Promise<string> =>
  send('chat/completions', session, { messages: [{ role: 'user', content: `Question ${(asked += 1)}?` }] })

const [alone, withSnapshot, references]: [Measured[], Measured[], Measured[]] = [[], [], []]
for (let i = 0; i < ROUNDS; i += 1) {
  for (const session of sessions) {
    alone.push(await measured(() => chat(session)))
    const first = await send('responses', session, { input: `Remember ${i}.`, store: true })
    references.push(
      await measured(() =>
        send('responses', '', { input: 'Again?', previous_response_id: first, max_output_tokens: 8 }),
      ),
    )
  }
  await delay(SNAPSHOT_MS)
  withSnapshot.push(
    await measured(async () => {
      for (let n = 0; n < BURST; n += 1) await chat(sessions[n % sessions.length]!)
      await delay(1500)
      return ''
    }),
  )
}
const holdOf = (all: readonly Measured[]): number => round(median(all.map(({ hold }) => hold)))
const cpuOf = (all: readonly Measured[]): number => round(median(all.map(({ cpu }) => cpu)))
await gateway.stop()
await log.close()
process.stdout.write(
  `${JSON.stringify({
    readySeconds,
    readyHold,
    readyMiB,
    requestHold: holdOf(alone),
    requestCpu: cpuOf(alone),
    snapshotHold: holdOf(withSnapshot),
    snapshotCpu: cpuOf(withSnapshot),
    referenceHold: holdOf(references),
    referenceCpu: cpuOf(references),
    peakMiB: Math.round(process.resourceUsage().maxRSS / 1024),
  } satisfies LongSession)}\n`,
)
