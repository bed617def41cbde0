-- The table of the service. The broker's tables are in the schema `plexsphere` of the same database.
CREATE TABLE public.orders (
    id uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    customer text NOT NULL,
    project uuid NOT NULL,
    machine uuid NOT NULL UNIQUE,
    status text NOT NULL,
    -- The sequence of the event that set `status`.
    status_from bigint NOT NULL DEFAULT 0
);
