-- The service's own table. It lies beside the broker's tables, which are in the schema `plexsphere`.
CREATE TABLE IF NOT EXISTS public.orders (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    customer text NOT NULL,
    project uuid NOT NULL,
    machine uuid NOT NULL UNIQUE,
    status text NOT NULL,
    -- The sequence of the event that the status is from.
    status_from bigint NOT NULL DEFAULT 0
);
