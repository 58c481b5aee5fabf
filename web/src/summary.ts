// Generated from the JSON Schema of `summary.json` by crates/report/tests/web_types.rs.

export interface Summary {
  answers: Answer[];
  baseline: string;
  cells: Cell[];
  confidence: number;
  equivalence_margin: number;
  fingerprint: Fingerprint;
  grade: Grade;
  notes: string[];
  plan: string;
  published: Published[];
  run: string;
  schema_version: number;
  setup: Setup;
  started_unix_ns: number;
  stopping: Stopping | null;
  tare_build: string;
  tare_version: string;
  trials: TrialRow[];
  trials_done: number;
  trials_planned: number;
}

export interface Answer {
  caution: string | null;
  distinction: Distinction | null;
  grade: Grade;
  load: string;
  mesh: string;
  text: string;
}

export type Arrivals = "constant" | "poisson" | { bursts: { slots: number } } | { ramp: { from_rps: number; to_rps: number } } | { steps: RateStep[] } | { trace: Trace } | "wrk2";

export type Bound = "exact" | "over" | "under";

export interface Cell {
  achieved_rps: number | null;
  core_to_core: CoreToCore | null;
  cost: Cost | null;
  counts: Counts;
  endpoints: EndpointRow[];
  instrument: Instrument | null;
  latency: Quantile[];
  lateness: Quantile[];
  load: string;
  machine_busy_cores: Estimate | null;
  mesh: string;
  named: MethodSummary[];
  overhead: Overhead | null;
  planes: Partial<Record<string, PlaneEstimate>>;
  rate_rps: number;
  service_time: Quantile[];
  spectrum: SpectrumPoint[];
  tls: Tls | null;
  trials_invalid: number[];
  trials_used: number[];
  verdict: Verdict;
}

export interface CoreToCore {
  least_ns: number;
  median_ns: number;
  most_ns: number;
}

export interface Cost {
  cores: Estimate;
  memory_gib: Estimate;
  per_month: Estimate;
  proxies: number;
  rps: number;
}

export interface Counts {
  error: number;
  in_flight: number;
  not_sent: number;
  ok: number;
  planned: number;
  timeout: number;
}

export type DataPlaneKind = "none" | "envoy-sidecar" | "sidecar" | "node-proxy" | "installed";

export interface Difference {
  distinction: Distinction;
  high: number | null;
  inference: Inference | null;
  low: number | null;
  pairs: number[];
  ratio: number | null;
  ratio_high: number | null;
  ratio_low: number | null;
  supported: boolean;
  value: number;
  what: string;
}

export type Distinction = "higher" | "lower" | "not_distinguishable" | "too_few_blocks";

export interface EndpointRow {
  counts: Counts;
  latency: Quantile[];
  name: string;
}

export type EnvironmentKind = "local" | "kubernetes";

export interface Estimate {
  high: number | null;
  low: number | null;
  runs: number[];
  value: number;
}

export interface Finding {
  found: string;
  grade: Grade;
  reason: Reason;
  remedy: string;
}

export interface Fingerprint {
  clocksource: string;
  cores: number;
  cpu_model: string;
  governor: string | null;
  idle: IdleCores | null;
  kernel: string;
  load_average_centi: number;
  memory_bytes: number;
  programs: Partial<Record<string, string>>;
  virtualised: string | null;
}

export type Grade = "valid" | "suspect" | "invalid";

export interface HelmRelease {
  chart?: string;
  name?: string;
  namespace?: string;
  repo: string | null;
  version: string | null;
}

export interface IdleCores {
  awake: boolean;
  how: string;
}

export interface Inference {
  corrected: Distinction;
  detectable: number;
  detectable_ratio: number | null;
  equivalent: boolean;
  equivalent_within: number;
  equivalent_within_ratio: number | null;
  p: number;
  p_holm: number;
  p_mann_whitney: number;
  p_permutation: number;
}

export interface Instrument {
  absent: string | null;
  below_zero: number;
  clock_uncertainty_ns_max: number;
  missed: number;
  sampled: number;
  send: Quantile[];
  service_time: Quantile[];
}

export interface Join {
  generator_annotations?: Partial<Record<string, string>>;
  manifests?: unknown[];
  namespace_annotations?: Partial<Record<string, string>>;
  namespace_labels?: Partial<Record<string, string>>;
  pod_annotations?: Partial<Record<string, string>>;
  pod_labels?: Partial<Record<string, string>>;
}

export interface LatencySummary {
  clamped: number;
  count: number;
  max: number;
  mean: number;
  min: number;
  p50: number;
  p75: number;
  p90: number;
  p95: number;
  p99: number;
  p99_9: number;
  p99_99: number;
  p99_999: number;
}

export interface Leftovers {
  config_maps?: string[];
  crd_groups?: string[];
  name_prefixes?: string[];
}

export interface Load {
  arrivals: Arrivals;
  connections: number;
  duration_ns: number;
  name: string;
  pace: Pace;
  rate_rps: number;
  threads: number;
  timeout_ns: number;
  warmup_ns: number;
}

export type MemoryKind = "pss" | "rss" | "working_set";

export interface Mesh {
  data_plane: DataPlaneKind;
  kubernetes: MeshKubernetes | null;
  name: string;
  settings: MeshSettings;
  title: string;
}

export interface MeshKubernetes {
  gone?: Leftovers;
  join?: Join;
  manifests?: unknown[];
  namespaces?: MeshNamespace[];
  parts?: MeshParts;
  proof: ProofSource | null;
  proxy_config?: Partial<Record<string, string>>;
  releases?: HelmRelease[];
  tried?: string;
  values?: Partial<Record<string, unknown>>;
}

export interface MeshNamespace {
  labels?: Partial<Record<string, string>>;
  name?: string;
}

export interface MeshParts {
  control_plane?: PodSelector[];
  node_proxies?: PodSelector[];
  ready?: WorkloadRef[];
  sidecar: string | null;
  waypoints: string | null;
}

export interface MeshSettings {
  access_log?: boolean;
  concurrency?: number;
  l7_stats?: boolean;
  mtls?: Mtls;
}

export interface MethodFigure {
  high: number | null;
  low: number | null;
  runs: number[];
  value: number;
  what: string;
}

export interface MethodSummary {
  dropped: number | null;
  figures: MethodFigure[];
  method: string;
  words: string;
}

export type Mtls = "off" | "permissive" | "strict";

export interface Outlier {
  cores: OutlierCores | null;
  median_ns: number;
  score: number;
  value_ns: number;
  what: string;
}

export interface OutlierCores {
  here_ns: number;
  median_ns: number;
}

export interface Overhead {
  blocks: number[];
  latency: Difference[];
  resources: Difference[];
}

export type Pace = "sleep" | "spin";

export interface PlaneEstimate {
  cpu_cores: Estimate;
  cpu_cores_max: number;
  cpu_cores_per_krps: Estimate | null;
  memory_bytes: Estimate;
  memory_kind: MemoryKind | null;
  memory_max_bytes: number;
  processes: number;
}

export interface PodSelector {
  namespace?: string;
  selector?: string;
}

export interface Prices {
  core_hour: number;
  currency: string;
  gib_hour: number;
  proxies: number | null;
  rps: number | null;
}

export interface Proof {
  claim: string;
  holds: boolean;
  seen: string;
}

export interface ProofSource {
  counters?: string[];
  of_node_proxies?: boolean;
  path?: string;
  port?: number;
}

export interface Published {
  figures: PublishedFigure[];
  id: string;
  method: string | null;
  setting: string;
  title: string;
  url: string | null;
}

export interface PublishedFigure {
  bound: Bound;
  mesh: string;
  rate_rps: number | null;
  unit: string;
  value: number;
  what: string;
}

export interface Quantile {
  high_ns: number | null;
  low_ns: number | null;
  name: string;
  q: number;
  runs_ns: number[];
  sampling: Uncertainty | null;
  supported: boolean;
  value_ns: number;
}

export interface RateStep {
  duration_ns: number;
  rate_rps: number;
}

export type Reason = "rate_not_achieved" | "lateness" | "generator_saturated" | "machine_saturated" | "throttled" | "errors" | "drain_cut" | "restart" | "not_meshed" | "too_few_samples" | "too_few_blocks" | "noisy_neighbour" | "accounting" | "interrupted" | "incomplete" | "closed_loop" | "not_started" | "debug_build" | "not_steady" | "warm_up_visible" | "start_skew" | "generators_differ" | "local_shortage" | "compatibility_mode";

export type ServiceProtocol = "http" | "grpc";

export interface Setup {
  command: string[];
  description: string;
  environment: EnvironmentKind;
  instances: number;
  loads: Load[];
  meshes: Mesh[];
  mix: string;
  prices: Prices | null;
  protocols?: ServiceProtocol[];
  repeats: number;
  seed: string;
  services: string[];
  workload: string;
}

export interface SpectrumPoint {
  max_ns: number;
  min_ns: number;
  ns: number;
  q: number;
  supported: boolean;
}

export interface Stability {
  autocorrelation: number;
  drift: number;
  drift_p: number;
  kpss: number;
  period_p: number;
  period_seconds: number | null;
  seconds: number;
  warmup_seconds: number | null;
}

export interface StopTarget {
  half_width: number;
  what: string;
  widest: number | null;
}

export interface Stopping {
  blocks_max: number;
  blocks_min: number;
  nominal_confidence: number;
  reached_after: number | null;
  targets: StopTarget[];
}

export interface Tls {
  failures: Partial<Record<string, number>>;
  handshake: Quantile[];
  handshakes_full: number;
  handshakes_resumed: number;
  insecure: boolean;
  protocols: Partial<Record<string, number>>;
}

export interface Trace {
  gaps_base64: string | null;
  length_ns: number;
  slots: number;
}

export interface TrialRow {
  achieved_rps: number | null;
  block: number;
  counts: Counts | null;
  data_plane_bytes: number | null;
  data_plane_cores: number | null;
  dir: string;
  errors: Partial<Record<string, number>>;
  excluded?: boolean;
  gone: string[];
  index: number;
  latency_ns: LatencySummary | null;
  lateness_ns: LatencySummary | null;
  load: string;
  mesh: string;
  outlier: Outlier | null;
  proofs: Proof[];
  stability: Stability | null;
  used: boolean;
  verdict: Verdict;
}

export interface Uncertainty {
  between_runs: number | null;
  effective_samples: number | null;
  order_high_ns: number;
  order_low_ns: number;
  within_high_ns: number | null;
  within_low_ns: number | null;
}

export interface Verdict {
  grade: Grade;
  reasons: Finding[];
}

export interface WorkloadRef {
  kind?: string;
  name?: string;
  namespace?: string;
}

