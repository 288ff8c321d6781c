import { openModel, startServing } from '@instar/policy'
import { EmbeddedVllm } from './embedded-vllm.ts'
import { MODEL, trials } from './trials.ts'

trials(async () => {
  const [model, engine] = await Promise.all([openModel(MODEL), startServing({ model: MODEL, threads: 1 })])
  const server = await new EmbeddedVllm(model, engine).start()
  return {
    url: server.url,
    ended: new Promise<never>(() => undefined),
    async stop() {
      await server.kill()
      await engine.close()
    },
  }
})
