/** A killed run leaves no process and no data, also while one of its services is stopped. */
import { equal, ok } from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { setTimeout as pause } from 'node:timers/promises'
import { processesOf, untilNothingLeft } from './world/orphans.ts'

test('kill -9 of a run ends its services, brokers, registry and database', { timeout: 180_000 }, async () => {
  const child = spawn(process.execPath, [fileURLToPath(new URL('processes/world.ts', import.meta.url))], {
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const gone = once(child, 'exit')
  try {
    const [folder] = (await once(createInterface({ input: child.stdout }), 'line')) as [string]
    // Five services, each with a shell and its guard, besides Kafka, the registry, PostgreSQL and the process that
    // deletes the folder.
    const before = processesOf(folder)
    equal(before.filter((line) => /\/main\.ts/.test(line) && !/guard/.test(line)).length, 5)
    ok(
      ['kafka.Kafka', 'quarkus-run.jar', 'postgres'].every((what) => before.some((line) => line.includes(what))),
      before.join('\n'),
    )
    process.kill(child.pid!, 'SIGKILL')
    await gone
    await untilNothingLeft(folder)
    for (const until = Date.now() + 10_000; existsSync(folder) && Date.now() < until;) await pause(50)
    ok(!existsSync(folder))
  } finally {
    child.kill('SIGKILL')
  }
})
