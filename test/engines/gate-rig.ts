/** The whole pipeline on servers with vLLM's interface before the built-in engine, which really applies adapters. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeRecord, type LineStarted, type VersionPublished, type VersionRejected } from '@instar/events'
import type { ServingEngine } from '@instar/engine/port'
import { openModel, startServing } from '@instar/policy'
import { startPipeline, type Pipeline } from '../../cli/src/pipeline.ts'
import { USER } from '../kit/gateway.ts'
import { writeRandomModel } from '../kit/random-model.ts'
import { EmbeddedVllm } from './embedded-vllm.ts'

type Verdict = VersionPublished | VersionRejected

export class GateRig {
  readonly folder = mkdtempSync(join(tmpdir(), 'instar-gate-'))
  readonly model = writeRandomModel(join(this.folder, 'model'))
  servers: EmbeddedVllm[] = []
  /** What the console said since the last start. */
  said: string[] = []
  private engines: ServingEngine[] = []
  private pipeline: Pipeline | null = null

  /** A server for each model folder. */
  async serve(models: readonly string[] = [this.model]): Promise<void> {
    for (const model of models) {
      const engine = await startServing({ model, engine: 'wasm' })
      this.engines.push(engine)
      this.servers.push(await new EmbeddedVllm(await openModel(model), engine).start())
    }
  }

  get running(): Pipeline {
    return this.pipeline!
  }

  /** A second start with the same name continues the log. */
  async start(name: string): Promise<void> {
    const data = join(this.folder, name)
    this.said = []
    this.pipeline = await startPipeline(
      {
        data,
        model: this.model,
        engine: 'wasm',
        database: false,
        gateway: { port: 0 },
        scorer: {},
        trainer: { batchSize: 4, batchMax: 4 },
        publisher: {
          samples: 6,
          fixedSamples: 2,
          maxTokens: 8,
          // Random weights move far in a step, and repeat themselves.
          thresholds: { klParent: 10, klBase: 10, repetition: 1 },
          battery: { shipped: false, seconds: 1 },
        },
        remote: {
          engine: `vllm+${this.servers.map(({ url }) => `${url}/v1`).join(',')}`,
          engineKey: null,
          engineModel: null,
          adapters: join(data, 'adapters'),
          model: this.model,
          modelNamed: true,
        },
      },
      {
        onFatal: (error) => {
          throw error
        },
        logLine: (line) => this.said.push(line),
      },
    )
  }

  private async post(path: string, body: unknown): Promise<{ id: string }> {
    const response = await fetch(`${this.running.url}/v1/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    assert.equal(response.status, 200, await response.clone().text())
    return (await response.json()) as { id: string }
  }

  /** A batch of answers, good and bad in turn. */
  async converse(from = 0): Promise<void> {
    for (let i = from; i < from + 4; i += 1) {
      const messages = [USER(`Say ${i}`)]
      const { id } = await this.post('chat/completions', { model: 'policy', max_tokens: 8, messages })
      await this.post('feedback', { turn_id: id, value: i % 2 === 0 })
    }
  }

  async line(): Promise<{ started: LineStarted; verdicts: Verdict[] }> {
    const verdicts: Verdict[] = []
    let started: LineStarted | null = null
    for await (const records of this.running.log.read('weights'))
      for (const record of records) {
        const { event } = decodeRecord(record)
        if (event.type === 'LineStarted') started = event
        if (event.type === 'VersionPublished' || event.type === 'VersionRejected') verdicts.push(event)
      }
    return { started: started!, verdicts }
  }

  /** The verdict on one batch. */
  async verdict(): Promise<Verdict> {
    await this.converse()
    await this.running.settled()
    const { verdicts } = await this.line()
    assert.equal(verdicts.length, 1)
    return verdicts[0]!
  }

  async stopPipeline(): Promise<void> {
    await this.pipeline?.stop()
    this.pipeline = null
  }

  /** Ends pipeline and servers. */
  async stop(): Promise<void> {
    await this.stopPipeline()
    for (const server of this.servers.splice(0)) await server.kill()
    for (const engine of this.engines.splice(0)) await engine.close()
  }

  remove(): void {
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** The names of candidates that a server has loaded. */
export const candidatesAt = (server: EmbeddedVllm): string[] =>
  [...server.loaded.keys()].filter((name) => name.startsWith('instar-gate-'))
