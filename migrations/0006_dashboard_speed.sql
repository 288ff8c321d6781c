CREATE INDEX "all_scores_version" ON "all_scores" USING btree ("policy","version");--> statement-breakpoint
CREATE INDEX "all_scores_at" ON "all_scores" USING btree ("policy","at");--> statement-breakpoint
CREATE INDEX "all_scores_session" ON "all_scores" USING btree ("session_id","reward");--> statement-breakpoint
CREATE INDEX "all_scores_reason" ON "all_scores" USING btree ("policy","reason") WHERE "all_scores"."reason" is not null;--> statement-breakpoint
CREATE INDEX "turns_reason" ON "turns" USING btree ("policy","reason") WHERE "turns"."reason" is not null;--> statement-breakpoint
CREATE INDEX "all_batch_turns_dropped" ON "all_batch_turns" USING btree ("policy","reason") WHERE not "all_batch_turns"."used";