# Configurations as torchtitan takes them since 2026: functions by name.
from torchtitan.trainer import Trainer

from . import model_registry

SEQ = 4096  # a constant (not read) of the file


def rates(warmup: int, ratio: float = 0.1):
    """Not a configuration: "return Trainer.Config(" stands in a string."""
    return LRSchedulersContainer.Config(warmup_steps=warmup, decay_ratio=ratio)


def llama3_8b() -> Trainer.Config:
    spec = model_registry("8B")
    return Trainer.Config(
        hf_assets_path="./assets, and (more)",
        model_spec=spec,
        optimizer=default_adamw(lr=3e-4),
        lr_scheduler=rates(600),
        training=TrainingConfig(
            num_tokens_per_microbatch_per_dp_rank=2 * 8192,  # two sequences
            max_context_length=8192,
            steps=1000,
        ),
        parallelism=ParallelismConfig(tensor_parallel_degree=2),
        activation_checkpoint=FullAC.Config(),
    )


def llama3_70b(
    nodes: int = 1,
) -> Trainer.Config:
    compile_config = CompileConfig(enable=True, enable_async_tensor_parallel=True)
    config = llama3_8b()
    # '''a bracket ( in a comment'''
    config.model_spec = model_registry(
        "70B",
        converters=[
            Float8LinearConverter.Config(filter_fqns=["lm_head"]),
        ],
    )
    if nodes > 1:
        config.training = TrainingConfig(max_context_length=1)
    config.parallelism.tensor_parallel_degree = 8
    config.parallelism.pipeline_parallel_degree = 2
    config.parallelism.num_pp_microbatches = 4
    config.training.num_tokens_per_train_step = 64 * 8192
    config.compile = compile_config
    return config


def qwen_8b_budget() -> Trainer.Config:
    config = llama3_8b()
    config.activation_checkpoint = MemoryBudgetAC.Config(memory_budget=0.3)
    config.model_spec = model_registry("8B", converters=[QATConverter.Config()])
    config.parallelism = ParallelismConfig(data_parallel_shard_degree=4)
    return config


def qwen_8b_nvfp4() -> Trainer.Config:
    config = qwen_8b_budget()
    config.activation_checkpoint = SelectiveAC.Config()
    config.model_spec = model_registry("8B", converters=[NVFP4LinearConverter.Config()])
    return config
