import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Constraint } from '@instar/engine/port'
import { model, startRig, USER } from '../../../../test/kit/gateway.ts'
import { ScriptedEngine } from '../../../../test/kit/scripted-engine.ts'

/** Compiles a constraint until it is told to go on. */
class CompilingEngine extends ScriptedEngine {
  readonly compiled: string[] = []
  readonly begun = Promise.withResolvers<void>()
  readonly goOn = Promise.withResolvers<void>()

  async check({ json }: Constraint): Promise<void> {
    this.compiled.push((json!.schema as { title: string }).title)
    this.begun.resolve()
    await this.goOn.promise
  }
}

test('constraints are compiled one at a time, those of clients that have left not at all, and known ones once', async (t) => {
  const engine = new CompilingEngine(model, () => '{}')
  const rig = await startRig({ engine })
  t.after(() => rig.stop())
  const ask = (title: string, signal?: AbortSignal): Promise<Response> =>
    rig.fetch('/v1/chat/completions', {
      ...(signal ? { signal } : {}),
      json: {
        model: 'policy',
        messages: [USER('Hi')],
        response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: { title, type: 'object' } } },
      },
    })
  const untilRunning = async (count: number): Promise<void> => {
    for (;;) {
      const figures = await (await rig.fetch('/metrics')).text()
      if (Number(/^instar_requests_running (\d+)$/m.exec(figures)?.[1]) === count) return
    }
  }

  const first = ask('first')
  await engine.begun.promise
  const gone = new AbortController()
  const leaving = Array.from({ length: 8 }, (_, i) => ask(`left ${i}`, gone.signal))
  await untilRunning(9)
  gone.abort()
  for (const one of leaving) await assert.rejects(one, { name: 'AbortError' })
  await untilRunning(1)
  const last = ask('last')
  engine.goOn.resolve()
  assert.equal((await first).status, 200)
  assert.equal((await last).status, 200)
  assert.equal((await ask('first')).status, 200)
  assert.deepEqual(engine.compiled, ['first', 'last'])
})
