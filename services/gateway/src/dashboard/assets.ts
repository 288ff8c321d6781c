/** The dashboard's files, with the headers that keep a page to its own origin. */
import type { FastifyInstance } from 'fastify'
import { dashboardFiles, type DashboardFile } from '@instar/dashboard'

/** No inline script, no other origin, no frame. Texts of people are never HTML. */
const SECURITY = {
  'content-security-policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const

export const addAssets = (server: FastifyInstance): void => {
  let files: ReadonlyMap<string, DashboardFile> | null = null
  const serve = (path: string, method: 'page' | 'file') =>
    server.get(path, (request, reply) => {
      files ??= dashboardFiles()
      const name = method === 'page' ? 'index.html' : (request.params as { '*': string })['*']
      const file = files.get(name)
      if (!file) return reply.callNotFound()
      const fresh = request.headers['if-none-match'] === file.etag
      return reply
        .headers({ ...SECURITY, etag: file.etag, 'cache-control': 'no-cache', 'content-type': file.type })
        .status(fresh ? 304 : 200)
        .send(fresh ? '' : file.bytes)
    })
  serve('/', 'page')
  serve('/dashboard/*', 'file')
}
