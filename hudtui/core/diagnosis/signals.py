"""Numbers of trainers that have no chart of their own, and tell of trouble."""

from __future__ import annotations

from collections.abc import Mapping

SIGNALS: Mapping[str, tuple[str, ...]] = {
    "clipped": (
        *("clip_ratio/region_mean", "clip_ratio", "actor/pg_clipfrac", "pg_clipfrac"),
        *("policy/clipfrac", "policy/clipfrac_avg", "clipfrac", "clip_fraction", "clip_frac"),
        *("policy/ppo_clip_ratio", "objective/clip_frac", "actor/ppo_clip_fraction"),
    ),
    "truncated": (
        *("completions/clipped_ratio", "response_length/clip_ratio", "truncation_rate"),
        *("is_truncated/all/mean", "is_truncated/mean", "truncated_ratio", "max_len_hit_frac"),
    ),
    "no_spread": (
        *("frac_reward_zero_std", "zero_variance_group_frac", "zero_var_group_frac"),
        "grpo/zero_std_frac",
    ),
    "no_advantage": ("actor/zero_advantage_frac", "adv_zero_frac", "zero_advantage_frac"),
    "sampler_gap": (
        *("sampling/sampling_logp_difference/mean", "mismatch_kl/all/mean", "mismatch_kl/mean"),
        *("mismatch_kl", "trainer_mismatch_kl", "gen_kl_error", "generation_kl_error"),
        *("rollout_corr/kl", "training/rollout_probs_diff_mean"),
    ),
    "tool_failures": (
        *("tools/failure_frequency", "tool_error_rate", "tool_failure_rate"),
        *("tool_errors/mean", "failed_call_share", "episodes/failed_turns"),
    ),
    "repetition": ("repetition_rate", "repetition", "repetition_ratio", "repeat_rate"),
    "broken": (*("broken", "error_rate", "env_error_rate", "errors/all/mean", "episodes/broken"),),
    "turn_limit": ("turn_limit_rate", "max_turns_reached", "episodes/turn_limit"),
    "context_full": ("episodes/context_full",),
    "done_at_once": ("episodes/done_at_once",),
    "outcome": ("task_completion",),
    "well_formed": ("format_compliance",),
    "said_tokens": ("episodes/completion_tokens",),
    "trained_tokens": ("completions/mean_length",),
    "turns": ("turns", "num_turns", "num_turns/mean", "turns/mean", "num_turns/all/mean"),
    "tool_seconds": ("time/tools", "timing_s/tool_calls", "timing_s/tools", "tool_time"),
    "not_finite": ("nan_count", "inf_count"),
}
"""What has no chart of its own, and the names that trainers use, the best first.

See `metrics.normal`.
"""
