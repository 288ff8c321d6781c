/** One broker behind a proxy that drops and delays messages on request. */
import { join } from 'node:path'
import { temporaryFolder } from '../stack.ts'
import { killAll } from './guarded.ts'
import { startKafka, type KafkaCluster } from './kafka.ts'
import { startProxy, type Proxy } from './proxy.ts'

export type Proxied = { proxy: Proxy; kafka: KafkaCluster; end(): Promise<void> }

export const startProxied = async (): Promise<Proxied> => {
  const folder = await temporaryFolder()
  const proxy = await startProxy()
  const kafka = await startKafka({ folder: join(folder.path, 'kafka'), advertised: proxy.port })
  proxy.upstream = kafka.nodes[0]!.behindProxy!
  return {
    proxy,
    kafka,
    async end() {
      await killAll()
      await proxy.close()
      await folder.remove()
    },
  }
}
