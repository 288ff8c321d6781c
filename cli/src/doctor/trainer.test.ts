import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ScriptedTinker, type TinkerBehaviour } from '../../../test/engines/scripted-tinker.ts'
import { checkTrainer, namedServerFindings, type TrainerReport } from './trainer.ts'

const report = async (behaviour: TinkerBehaviour): Promise<TrainerReport & { levels: Record<string, string> }> => {
  const scripted = await new ScriptedTinker(behaviour).start()
  try {
    const options = { key: behaviour.key ?? null, base: null, rank: 4, signal: new AbortController().signal }
    const found = await checkTrainer(`tinker+${scripted.url}`, options, () => undefined)
    return { ...found, levels: Object.fromEntries(found.checks.map(({ name, level }) => [name, level])) }
  } finally {
    await scripted.kill()
  }
}

test('a server as SkyRL passes, with a note about the clip of gradients', async () => {
  const { levels, capabilities, checks } = await report({})
  assert.deepEqual(levels, {
    server: 'ok',
    reduction: 'ok',
    losses: 'ok',
    retries: 'ok',
    resume: 'ok',
    adapter: 'ok',
    gradient: 'note',
    unload: 'note',
    shared_rows: 'ok',
    lengths: 'ok',
    context: 'ok',
    prompts: 'ok',
    key: 'ok',
  })
  assert.equal(capabilities?.['reduction'], 'sequence_mean')
  assert.match(checks.find(({ name }) => name === 'gradient')?.found ?? '', /ignored; the norm is reported/)
})

test('a request without a key that meets a busy server leaves open whether one is needed', async () => {
  const admit: TinkerBehaviour['admit'] = ({ headers }) => (headers['x-api-key'] === undefined ? { status: 503 } : null)
  const { levels, capabilities } = await report({ key: 'k', admit })
  assert.deepEqual([levels['key'], capabilities?.['requiresKey']], ['unsure', 'null'])
})

test('the context that a server states for its base model is named', async () => {
  const { checks } = await report({ modelEntry: { max_context_length: 32_768 } })
  assert.match(checks.find(({ name }) => name === 'context')?.found ?? '', /at most 32768 tokens/)
})

test('a server that runs repeated requests again, or lacks the loss, is wrong', async () => {
  assert.equal((await report({ notRepeatable: true })).levels['retries'], 'wrong')
  assert.equal((await report({ losses: ['cross_entropy'] })).levels['probe'], 'wrong')
})

test('an address without a server, and one of another server, are wrong', async () => {
  const options = { key: null, base: null, rank: 4, signal: new AbortController().signal }
  const { checks } = await checkTrainer('http:/x', options, () => undefined)
  assert.deepEqual([checks[0]?.level, checks.length], ['wrong', 1])
  const other = await report({ admit: () => ({ status: 404, body: { detail: 'Not Found' } }) })
  assert.equal(other.levels['server'], 'wrong')
})

test('doctor says whether the training server of the settings answers, within its limit, and trains nothing there', async () => {
  const scripted = await new ScriptedTinker({}).start()
  const named = { server: `tinker+${scripted.url}`, serverModel: null, serverKey: null }
  const [up] = await namedServerFindings(named)
  assert.equal(up?.level, 'ok', up?.found)
  assert.match(up.found, /base models [^,]+; /)
  assert.equal(scripted.models.size, 0)
  await scripted.kill()
  const begin = performance.now()
  const [down] = await namedServerFindings(named, 500)
  assert.equal(down?.level, 'wrong')
  assert.match(down.found, /does not answer|ECONNREFUSED|lost/)
  assert.ok(performance.now() - begin < 10_000)
})
