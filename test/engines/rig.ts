/** A gateway whose engine is behind HTTP: scripted servers, real adapters, the log in memory. */
import type { GatewaySettings } from '@instar/gateway'
import { startRemote, type RemoteOptions } from '@instar/engine'
import { openMemoryLog } from '@instar/log'
import type { Adapter } from '@instar/engine/port'
import { adapterFromWeights, isNeutral } from '@instar/policy'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { model, Publisher, startRig, type Rig } from '../kit/gateway.ts'
import { randomAdapter } from '../kit/random-model.ts'

export type RemoteRig = Rig & { said: string[]; line: string; adapters: string; stop(): Promise<void> }

export const QUICK = { connectMs: 2000, firstByteMs: 20_000, idleMs: 20_000, jsonMs: 20_000 }

export const startRemoteRig = async (
  address: string,
  { settings = {}, ...options }: Partial<RemoteOptions> & { settings?: GatewaySettings } = {},
): Promise<RemoteRig> => {
  const adapters = mkdtempSync(join(tmpdir(), 'instar-adapters-'))
  const said: string[] = []
  const remote = await startRemote({
    engine: address,
    model,
    adapters,
    isNeutral,
    timeouts: QUICK,
    logLine: (line) => said.push(line),
    ...options,
  })
  const rig = await startRig({
    log: openMemoryLog(),
    settings,
    ports: { engine: remote.engine, model: remote.model, toAdapter: adapterFromWeights },
  })
  return {
    ...rig,
    said,
    line: remote.line,
    adapters,
    async stop() {
      await rig.stop()
      await remote.engine.close()
      rmSync(adapters, { recursive: true, force: true })
    },
  }
}

/** Publishes versions with valid adapters. */
export class Line extends Publisher {
  private last = 0

  constructor(rig: Rig) {
    super(rig.log)
  }

  async publishNext(adapter: Adapter = randomAdapter(this.last + 1)): Promise<Adapter> {
    await this.publish(this.last, { weights: adapter.weights })
    this.last += 1
    return adapter
  }

  rollback(from: number, to: number): Promise<void> {
    return this.append({
      type: 'HeadMoved',
      prev: this.prev,
      policy: 'policy',
      from,
      to,
      who: 'test',
      why: 'test',
      request: `r${Date.now()}`,
      freeze: false,
      at: Date.now(),
    })
  }
}

type Status = {
  serving: number
  problem: { message: string } | null
  pool: { loaded: number[] }
  requests: { running: number }
}

/** Polls the gateway's status until it fits. */
export const statusThat = async (rig: Rig, fits: (status: Status) => boolean): Promise<Status> => {
  const until = Date.now() + 30_000
  for (;;) {
    const status = (await (await rig.fetch('/admin/status')).json()) as Status
    if (fits(status)) return status
    if (Date.now() > until) throw new Error(`the gateway stays as it is: ${JSON.stringify(status)}`)
    await new Promise((resolve) => {
      setTimeout(resolve, 20)
    })
  }
}
