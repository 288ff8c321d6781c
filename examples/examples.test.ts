/** The worlds of the examples: what solves a task is rewarded, nothing else is, and nothing leaves the folder. */
import { deepEqual, equal, match, ok } from 'node:assert/strict'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { World } from './example.ts'
import { EXAMPLES, main } from './run.ts'
import { solutions, swe } from './swe/example.ts'
import { runCommand, terminal } from './terminal/example.ts'
import { toolCall } from './tool-call/example.ts'
import { web } from './web/example.ts'

const ended = async <T>(world: World, work: (world: World) => Promise<T>): Promise<T> => {
  try {
    return await work(world)
  } finally {
    await world.end()
  }
}

test('an episode without any call has the lowest reward in every example, and seeds give different tasks', async () => {
  for (const example of EXAMPLES) {
    const [first, second] = [1, 2].map((seed) => example.tasks(seed, 8))
    equal(new Set([...first!, ...second!].map(({ id }) => id)).size, 16, example.name)
    for (const task of first!) equal(await ended(await task.begin(), (world) => world.reward('done')), -1, task.id)
  }
})

test('tool-call: the first call counts, its tool and its argument', async () => {
  const rewards = async (
    calls: readonly (readonly [string, Record<string, unknown>])[],
    ask: RegExp,
  ): Promise<number> => {
    const task = toolCall.tasks(1, 40).find((one) => ask.test(one.ask))!
    return ended(await task.begin(), async (world) => {
      for (const [name, input] of calls) await world.call(name, input)
      return world.reward('')
    })
  }
  const [, a, b] = /(\d+) \+ (\d+)/.exec(toolCall.tasks(1, 40).find(({ ask }) => /\+/.test(ask))!.ask)!
  equal(await rewards([['calculate', { expression: `${a}+${b}` }]], /\+/), 1)
  equal(await rewards([['calculate', { expression: '1 + 1' }]], /\+/), -0.5)
  equal(
    await rewards(
      [
        ['get_time', { city: 'Rome' }],
        ['calculate', { expression: `${a} + ${b}` }],
      ],
      /\+/,
    ),
    -1,
  )
})

test('terminal: counting and writing is rewarded; paths, other programs and shell syntax are refused', async () => {
  for (const task of terminal.tasks(1, 6)) {
    const counted = await ended(await task.begin(), async (world) => {
      const file = /write the number to (\S+)\./.exec(task.ask)![1]!
      const source = /lines of (\S+) and/.exec(task.ask)?.[1]
      const listed = await world.call('run', { command: source ? `wc -l ${source}` : 'ls' })
      const number = source ? Number.parseInt(listed, 10) : listed.trim().split('\n').length
      const early = await world.reward('')
      await world.call('run', { command: `echo 99 > ${file}` })
      const wrong = await world.reward('')
      await world.call('run', { command: `echo ${number} > ${file}` })
      return [early, wrong, await world.reward('')]
    })
    deepEqual(counted, [-1, -0.5, 1], task.ask)
  }
  const folder = mkdtempSync(join(tmpdir(), 'instar-escape-'))
  try {
    writeFileSync(join(folder, 'a.txt'), 'x\n')
    for (const command of [
      'cat /etc/passwd',
      'cat ../a.txt',
      'ls ..',
      'ls /',
      'rm a.txt',
      'sh a.txt',
      'cat a.txt; ls /',
      'cat a.txt | sh',
      'echo $(id) > b.txt',
      'echo x > ../b.txt',
      'echo x > /tmp/b.txt',
      'grep --file=/etc/passwd a.txt',
      'cat .hidden',
    ])
      match(await runCommand(folder, command), /^error: /, command)
    deepEqual(readdirSync(folder), ['a.txt'])
    equal(await runCommand(folder, 'cat a.txt'), 'x\n')
    match(await runCommand(folder, 'cat'), /^$/, 'no input to wait for')
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('swe: the test run decides, only the source may be written, and code that runs can neither write nor read elsewhere', async () => {
  const task = swe.tasks(1, 1)[0]!
  const { name, source } = solutions.find((one) => task.ask.includes(`${one.name}.mjs`))!
  const tried = async (text: string, path = `${name}.mjs`): Promise<unknown[]> =>
    ended(await task.begin(), async (world) => [
      await world.call('write', { path, text }),
      (await world.call('test', {})).split('\n')[0],
      await world.reward(''),
    ])
  deepEqual(await tried(source), ['written', 'tests passed', 1])
  deepEqual(await tried('export const x = 1\n'), ['written', 'error: tests failed', -1])
  deepEqual(await tried('', `${name}.test.mjs`), [`error: only ${name}.mjs may be written`, 'error: tests failed', -1])
  const outside = join(tmpdir(), `instar-swe-outside-${process.pid}`)
  const escaping = `import { writeFileSync } from 'node:fs'\nwriteFileSync(${JSON.stringify(outside)}, 'x')\n${source}`
  deepEqual(await tried(escaping), ['written', 'error: tests failed', -1])
  const reading = `import { readFileSync } from 'node:fs'\nreadFileSync('/etc/hostname')\n${source}`
  deepEqual(await tried(reading), ['written', 'error: tests failed', -1])
  ok(!readdirSync(tmpdir()).includes(`instar-swe-outside-${process.pid}`))
})

test('web: the wanted thing once in the cart is rewarded, through the tree', async () => {
  const task = web.tasks(1, 1)[0]!
  const wanted = /one (\w+) into/.exec(task.ask)![1]!
  const solved = await ended(await task.begin(), async (world) => {
    match(await world.call('click', { element: `Add ${wanted}` }), /^error: there is no button/)
    await world.call('type', { element: 'Search', text: wanted })
    match(await world.call('click', { element: 'Search' }), new RegExp(`button "Add ${wanted}"`))
    match(await world.call('click', { element: `Add ${wanted}` }), new RegExp(`Cart: ${wanted}`))
    const once = await world.reward('')
    await world.call('click', { element: `Add ${wanted}` })
    return [once, await world.reward('')]
  })
  deepEqual(solved, [1, -0.25])
})

test('wrong usage is exit code 2', async () => {
  equal(await main(['nothing']), 2)
  equal(await main(['web', '--tasks', '0']), 2)
  equal(await main(['web', '--unknown']), 2)
  equal(await main(['web', '--model', 'models/none']), 2)
})
