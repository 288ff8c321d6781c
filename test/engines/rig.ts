/** A gateway whose engine is behind HTTP: scripted servers, real adapters, the log in memory. */
import { encodeEvent, type Event } from '@instar/events'
import type { GatewaySettings } from '@instar/gateway'
import { startRemote, type RemoteOptions } from '@instar/gateway/shell/engines/start'
import { openMemoryLog, putBlob } from '@instar/log'
import { adapterFromWeights, type Adapter } from '@instar/policy'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { model, startRig, type Rig } from '../gateway/harness.ts'
import { randomAdapter } from '../serving/random-model.ts'

export type RemoteRig = Rig & { said: string[]; line: string; adapters: string; stop(): Promise<void> }

export const QUICK = { connectMs: 2000, firstByteMs: 20_000, idleMs: 20_000 }

export const startRemoteRig = async (address: string, { settings = {}, ...options }: Partial<RemoteOptions> & { settings?: GatewaySettings } = {}): Promise<RemoteRig> => {
  const adapters = mkdtempSync(join(tmpdir(), 'instar-adapters-'))
  const said: string[] = []
  const remote = await startRemote({ engine: address, model, adapters, timeouts: QUICK, say: (line) => said.push(line), ...options })
  const rig = await startRig({ log: openMemoryLog(), settings, ports: { engine: remote.engine, model: remote.model, toAdapter: adapterFromWeights } })
  return {
    ...rig, said, line: remote.line, adapters,
    async stop() {
      await rig.stop()
      await remote.engine.close()
      rmSync(adapters, { recursive: true, force: true })
    },
  }
}

/** What a publisher writes, with adapters that are adapters. */
export class Line {
  private readonly rig: Rig
  private prev = ''
  private last = 0

  constructor(rig: Rig) {
    this.rig = rig
  }

  async start(): Promise<void> {
    await this.append({ type: 'LineStarted', prev: '', policy: 'policy', mode: 'live', base: { name: 'tiny', sha256: model.sha256 }, parent: null, settings: {}, at: Date.now() })
  }

  async publish(adapter: Adapter = randomAdapter(this.last + 1)): Promise<Adapter> {
    const blobsAt = Date.now()
    await putBlob(this.rig.log, adapter.weights, blobsAt)
    this.last += 1
    await this.append({ type: 'VersionPublished', prev: this.prev, policy: 'policy', number: this.last, update: `u${this.last}`, adapter: adapter.sha256, adapterBytes: adapter.weights.length, state: 's', blobsAt, parent: this.last - 1, why: 'update', source: null, figures: {}, at: Date.now() })
    return adapter
  }

  async rollback(from: number, to: number): Promise<void> {
    await this.append({ type: 'HeadMoved', prev: this.prev, policy: 'policy', from, to, who: 'test', why: 'test', request: `r${Date.now()}`, freeze: false, at: Date.now() })
  }

  private async append(event: Event): Promise<void> {
    const { id, ...record } = encodeEvent(event)
    await this.rig.log.append([record])
    this.prev = id
  }
}

type Status = { serving: number; problem: { message: string } | null; pool: { loaded: number[] } }

/** Asks for the gateway's state until it fits. */
export const statusThat = async (rig: Rig, fits: (status: Status) => boolean): Promise<Status> => {
  const until = Date.now() + 30_000
  for (;;) {
    const status = await (await rig.fetch('/admin/status')).json() as Status
    if (fits(status)) return status
    if (Date.now() > until) throw new Error(`the gateway stays as it is: ${JSON.stringify(status)}`)
    await new Promise((resolve) => { setTimeout(resolve, 20) })
  }
}
