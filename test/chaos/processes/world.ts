/** Starts all processes, stops one service with SIGSTOP, prints their folder, and waits to be killed. */
import { startWorld } from '../world/world.ts'

const world = await startWorld({ services: { gateway: 1, scorer: 1 } })
world.of('scorer')[0]!.pause()
process.stdout.write(`${world.folder}\n`)
setInterval(() => undefined, 60_000)
