ALTER TABLE "all_rejections" ADD COLUMN "asked_by" text;--> statement-breakpoint
ALTER TABLE "all_rejections" ADD COLUMN "asked_why" text;--> statement-breakpoint
ALTER TABLE "all_versions" ADD COLUMN "asked_by" text;--> statement-breakpoint
ALTER TABLE "all_versions" ADD COLUMN "asked_why" text;--> statement-breakpoint
CREATE INDEX "all_rejections_asked" ON "all_rejections" USING btree ("policy","at") WHERE "all_rejections"."asked_by" is not null;