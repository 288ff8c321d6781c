/** An S3 server in this process, which checks signatures, with one bucket and the key pair S3RVER, S3RVER. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

type Server = { run(): Promise<{ address: string; port: number }>; close(): Promise<void> }
const S3rver = createRequire(import.meta.url)('@20minutes/s3rver') as new (options: object) => Server

export type S3Server = { endpoint: string; bucket: string; folder: string; stop(): Promise<void> }

export const startS3 = async (): Promise<S3Server> => {
  const folder = mkdtempSync(join(tmpdir(), 'instar-s3-'))
  const bucket = 'archives'
  const server = new S3rver({
    address: '127.0.0.1',
    port: 0,
    silent: true,
    directory: folder,
    configureBuckets: [{ name: bucket }],
  })
  const { port } = await server.run()
  return {
    endpoint: `http://127.0.0.1:${port}`,
    bucket,
    folder,
    async stop() {
      await server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}
