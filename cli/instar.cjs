#!/usr/bin/env node
'use strict'
void require('../bootstrap.cjs').start('cli/src/main.ts', process.argv.slice(2))
