import { defineConfig } from 'drizzle-kit'

export default defineConfig({
  dialect: 'postgresql',
  schema: './packages/projections/src/schema.ts',
  out: './migrations',
})
