/* Families of Hugging Face configurations: what each counts, and what it is made of. */
#include "test_model.h"

#include "model/family.h"

/* Keys in single quotes, as a file has them in double ones; newly allocated. */
static char *quoted(const char *text)
{
  return g_strdelimit(g_strdup(text), "'", '"');
}

static Model *read_quoted(const char *text)
{
  g_autofree char *file = quoted(text);
  return parsed(file);
}

/*
 * Configurations as published, or as the classes of transformers 5.23 have them, and the trainable weights of the
 * models that these classes build from them, tied ones once; with the correction values of routers, which are no
 * weights there.
 */
START_TEST(counts)
{
  static const struct {
    const char *text;
    gint64 params;
  } cases[] = {
    {"{'model_type':'gemma','hidden_size':3072,'num_attention_heads':16,'num_key_value_heads':16,'head_dim':256,"
     "'intermediate_size':24576,'vocab_size':256000,'tie_word_embeddings':true,'num_hidden_layers':28,"
     "'attention_bias':false}",
     G_GINT64_CONSTANT(8537680896)},
    {"{'model_type':'phi','hidden_size':2048,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':8192,'vocab_size':51200,'tie_word_embeddings':false,'num_hidden_layers':24}",
     G_GINT64_CONSTANT(1418270720)},
    {"{'model_type':'granite','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':11008,'vocab_size':32000,'tie_word_embeddings':true,'num_hidden_layers':32,"
     "'attention_bias':true,'mlp_bias':false}",
     G_GINT64_CONSTANT(6607867904)},
    {"{'model_type':'granitemoe','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':11008,'vocab_size':32000,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false,'num_local_experts':8,'num_experts_per_tok':2}",
     G_GINT64_CONSTANT(37039116288)},
    {"{'model_type':'cohere','hidden_size':8192,'num_attention_heads':64,'num_key_value_heads':64,"
     "'intermediate_size':22528,'vocab_size':256000,'tie_word_embeddings':true,'num_hidden_layers':40,"
     "'attention_bias':false,'use_qk_norm':false}",
     G_GINT64_CONSTANT(34980831232)},
    {"{'model_type':'cohere','hidden_size':12288,'num_attention_heads':96,'num_key_value_heads':8,"
     "'intermediate_size':33792,'vocab_size':256000,'tie_word_embeddings':true,'num_hidden_layers':64,"
     "'attention_bias':false,'use_qk_norm':true}",
     G_GINT64_CONSTANT(103810674688)},
    {"{'model_type':'cohere2','hidden_size':8192,'num_attention_heads':64,'num_key_value_heads':64,'head_dim':128,"
     "'intermediate_size':22528,'vocab_size':256000,'tie_word_embeddings':true,'num_hidden_layers':40,"
     "'attention_bias':false,'sliding_window':4096}",
     G_GINT64_CONSTANT(34980831232)},
    {"{'model_type':'olmo2','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':11008,'vocab_size':50304,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false}",
     G_GINT64_CONSTANT(6888624128)},
    {"{'model_type':'olmo2','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':8,"
     "'intermediate_size':11008,'vocab_size':50304,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false}",
     G_GINT64_CONSTANT(6083219456)},
    {"{'model_type':'olmo3','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':11008,'vocab_size':50304,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false,'sliding_window':4096}",
     G_GINT64_CONSTANT(6888624128)},
    {"{'model_type':'olmoe','hidden_size':2048,'num_attention_heads':16,'num_key_value_heads':16,"
     "'intermediate_size':1024,'vocab_size':50304,'tie_word_embeddings':false,'num_hidden_layers':16,"
     "'attention_bias':false,'num_experts':64,'num_experts_per_tok':8}",
     G_GINT64_CONSTANT(6919161856)},
    {"{'model_type':'flex_olmo','vocab_size':100352,'hidden_size':4096,'intermediate_size':11008,"
     "'num_hidden_layers':32,'num_attention_heads':32,'num_experts':7,'num_experts_per_tok':5}",
     G_GINT64_CONSTANT(33270665216)},
    {"{'model_type':'smollm3','hidden_size':2048,'num_attention_heads':16,'num_key_value_heads':4,"
     "'intermediate_size':11008,'vocab_size':128256,'tie_word_embeddings':true,'num_hidden_layers':36,"
     "'attention_bias':false,'mlp_bias':false}",
     G_GINT64_CONSTANT(3075098624)},
    {"{'model_type':'starcoder2','hidden_size':3072,'num_attention_heads':24,'num_key_value_heads':2,"
     "'intermediate_size':12288,'vocab_size':49152,'tie_word_embeddings':true,'num_hidden_layers':30,"
     "'use_bias':true}",
     G_GINT64_CONSTANT(3030371328)},
    {"{'model_type':'nemotron','hidden_size':6144,'num_attention_heads':48,'num_key_value_heads':8,'head_dim':128,"
     "'intermediate_size':24576,'vocab_size':256000,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false,'mlp_bias':false}",
     G_GINT64_CONSTANT(15628775424)},
    {"{'model_type':'glm','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':2,'head_dim':128,"
     "'intermediate_size':13696,'vocab_size':151552,'tie_word_embeddings':false,'num_hidden_layers':40,"
     "'attention_bias':true}",
     G_GINT64_CONSTANT(9399951360)},
    {"{'model_type':'glm4','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':2,'head_dim':128,"
     "'intermediate_size':13696,'vocab_size':151552,'tie_word_embeddings':false,'num_hidden_layers':40,"
     "'attention_bias':true}",
     G_GINT64_CONSTANT(9400279040)},
    {"{'model_type':'glm4_moe','hidden_size':4096,'num_attention_heads':96,'num_key_value_heads':8,'head_dim':128,"
     "'intermediate_size':10944,'vocab_size':151552,'tie_word_embeddings':false,'num_hidden_layers':46,"
     "'attention_bias':true,'use_qk_norm':false,'num_experts_per_tok':8,'moe_intermediate_size':1408,"
     "'n_shared_experts':1,'n_routed_experts':128,'first_k_dense_replace':1}",
     G_GINT64_CONSTANT(106852251264)},
    /* GLM-4.5V and GLM-4.1V: the decoders of GLM-4.5-Air and GLM-4-9B */
    {"{'model_type':'glm4v_moe','text_config':{'model_type':'glm4v_moe_text','hidden_size':4096,"
     "'num_attention_heads':96,'num_key_value_heads':8,'head_dim':128,'intermediate_size':10944,'vocab_size':151552,"
     "'num_hidden_layers':46,'num_experts_per_tok':8,'moe_intermediate_size':1408,'n_shared_experts':1,"
     "'n_routed_experts':128,'first_k_dense_replace':1},'vision_config':{'hidden_size':1536}}",
     G_GINT64_CONSTANT(106852251264)},
    {"{'model_type':'glm4v','text_config':{'model_type':'glm4v_text','hidden_size':4096,'num_attention_heads':32,"
     "'num_key_value_heads':2,'intermediate_size':13696,'vocab_size':151552,'num_hidden_layers':40}}",
     G_GINT64_CONSTANT(9400279040)},
    /* Qwen3-30B-A3B's and Qwen3-8B's, inside of Qwen3-Omni and InternVL */
    {"{'model_type':'qwen3_omni_moe','thinker_config':{'model_type':'qwen3_omni_moe_thinker','text_config':"
     "{'model_type':'qwen3_omni_moe_text','hidden_size':2048,'num_attention_heads':32,'num_key_value_heads':4,"
     "'head_dim':128,'vocab_size':151936,'num_hidden_layers':48,'num_experts':128,'num_experts_per_tok':8,"
     "'moe_intermediate_size':768,'intermediate_size':768}},'talker_config':{}}",
     G_GINT64_CONSTANT(30532122624)},
    {"{'model_type':'internvl_chat','llm_config':{'model_type':'qwen3','hidden_size':4096,'num_attention_heads':32,"
     "'num_key_value_heads':8,'head_dim':128,'intermediate_size':12288,'vocab_size':151936,'num_hidden_layers':36}}",
     G_GINT64_CONSTANT(8190735360)},
    {"{'model_type':'glm4_moe','hidden_size':5120,'num_attention_heads':96,'num_key_value_heads':8,'head_dim':128,"
     "'intermediate_size':12288,'vocab_size':151552,'tie_word_embeddings':false,'num_hidden_layers':92,"
     "'attention_bias':true,'use_qk_norm':true,'num_experts_per_tok':8,'moe_intermediate_size':1536,"
     "'n_shared_experts':1,'n_routed_experts':160,'first_k_dense_replace':3}",
     G_GINT64_CONSTANT(352797829024)},
    {"{'model_type':'minimax_m2','hidden_size':3072,'num_attention_heads':48,'num_key_value_heads':8,"
     "'head_dim':128,'intermediate_size':1536,'vocab_size':200064,'tie_word_embeddings':false,"
     "'num_hidden_layers':62,'num_local_experts':256,'num_experts_per_tok':8}",
     G_GINT64_CONSTANT(228689764864)},
    /* defaults of transformers 5.23's classes, built without memory */
    {"{'model_type':'roberta','hidden_size':768,'num_attention_heads':12,'intermediate_size':3072,"
     "'vocab_size':50265,'type_vocab_size':2,'tie_word_embeddings':true,'num_hidden_layers':12,"
     "'max_position_embeddings':512}",
     G_GINT64_CONSTANT(124696665)},
    {"{'model_type':'camembert','hidden_size':768,'num_attention_heads':12,'intermediate_size':3072,"
     "'vocab_size':30522,'type_vocab_size':2,'tie_word_embeddings':true,'num_hidden_layers':12,"
     "'max_position_embeddings':512}",
     G_GINT64_CONSTANT(109514298)},
    {"{'model_type':'xlm-roberta','hidden_size':768,'num_attention_heads':12,'intermediate_size':3072,"
     "'vocab_size':30522,'type_vocab_size':2,'tie_word_embeddings':true,'num_hidden_layers':12,"
     "'max_position_embeddings':512}",
     G_GINT64_CONSTANT(109514298)},
    {"{'model_type':'xlm-roberta-xl','hidden_size':2560,'num_attention_heads':32,'intermediate_size':10240,"
     "'vocab_size':250880,'type_vocab_size':1,'tie_word_embeddings':true,'num_hidden_layers':36,"
     "'max_position_embeddings':514}",
     G_GINT64_CONSTANT(3482741760)},
    {"{'model_type':'cwm','hidden_size':6144,'num_attention_heads':48,'num_key_value_heads':8,"
     "'head_dim':128,'intermediate_size':21504,'vocab_size':128256,'tie_word_embeddings':false,"
     "'num_hidden_layers':64,'mlp_bias':false,'max_position_embeddings':131072,'sliding_window':8192}",
     G_GINT64_CONSTANT(32581097472)},
    {"{'model_type':'iquestcoder','hidden_size':5120,'num_attention_heads':40,'num_key_value_heads':8,"
     "'head_dim':128,'intermediate_size':27648,'vocab_size':76800,'tie_word_embeddings':false,"
     "'num_hidden_layers':80,'attention_bias':false,'mlp_bias':false,'max_position_embeddings':131072}",
     G_GINT64_CONSTANT(39794283520)},
    {"{'model_type':'internlm3','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':2,"
     "'head_dim':128,'intermediate_size':10240,'vocab_size':128512,'tie_word_embeddings':false,"
     "'num_hidden_layers':48,'attention_bias':false,'mlp_bias':false,'max_position_embeddings':32768}",
     G_GINT64_CONSTANT(8804241408)},
    {"{'model_type':'jais2','hidden_size':3328,'num_attention_heads':26,'num_key_value_heads':26,"
     "'head_dim':128,'intermediate_size':26624,'vocab_size':150272,'tie_word_embeddings':false,"
     "'num_hidden_layers':32,'attention_bias':true,'mlp_bias':true,'max_position_embeddings':8192}",
     G_GINT64_CONSTANT(8090401280)},
    {"{'model_type':'mellum','hidden_size':2304,'num_attention_heads':32,'num_key_value_heads':4,"
     "'head_dim':128,'intermediate_size':7168,'vocab_size':98304,'tie_word_embeddings':false,"
     "'num_hidden_layers':28,'attention_bias':false,'num_local_experts':64,'num_experts_per_tok':8,"
     "'moe_intermediate_size':896,'max_position_embeddings':131072,'sliding_window':1024}",
     G_GINT64_CONSTANT(12149923072)},
    {"{'model_type':'solar_open','hidden_size':4096,'num_attention_heads':64,'num_key_value_heads':8,"
     "'head_dim':128,'vocab_size':196608,'tie_word_embeddings':false,'num_hidden_layers':48,"
     "'attention_bias':false,'n_routed_experts':128,'num_experts_per_tok':8,'n_shared_experts':1,"
     "'moe_intermediate_size':1280,'max_position_embeddings':131072}",
     G_GINT64_CONSTANT(102651799552)},
    {"{'model_type':'granitemoeshared','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':11008,'vocab_size':32000,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false,'num_local_experts':8,'num_experts_per_tok':2,'shared_intermediate_size':0,"
     "'max_position_embeddings':2048}",
     G_GINT64_CONSTANT(37039116288)},
    {"{'model_type':'vaultgemma','hidden_size':2304,'num_attention_heads':8,'num_key_value_heads':4,"
     "'head_dim':256,'intermediate_size':9216,'vocab_size':256000,'tie_word_embeddings':true,"
     "'num_hidden_layers':26,'attention_bias':false,'max_position_embeddings':8192,'sliding_window':4096}",
     G_GINT64_CONSTANT(2614222080)},
    {"{'model_type':'gpt-sw3','n_embd':768,'n_layer':12,'n_head':12,'vocab_size':50257,'n_positions':1024}",
     G_GINT64_CONSTANT(124439808)},
    {"{'model_type':'mt5','vocab_size':250112,'d_model':512,'d_kv':64,'d_ff':1024,'num_layers':8,'num_heads':6,"
     "'feed_forward_proj':'gated-gelu','tie_word_embeddings':true}",
     G_GINT64_CONSTANT(172119424)},
    {"{'model_type':'deepseek_v32','hidden_size':7168,'num_attention_heads':128,'num_key_value_heads':128,"
     "'intermediate_size':18432,'vocab_size':129280,'num_hidden_layers':3,'first_k_dense_replace':3,"
     "'n_routed_experts':256,'num_experts_per_tok':8,'moe_intermediate_size':2048,'n_shared_experts':1,"
     "'layer_types':['indexed_attention','indexed_attention','indexed_attention']}",
     G_GINT64_CONSTANT(3645693696)},
    {"{'model_type':'seed_oss','hidden_size':4096,'num_attention_heads':80,'num_key_value_heads':8,'head_dim':128,"
     "'intermediate_size':27648,'vocab_size':155136,'tie_word_embeddings':false,'num_hidden_layers':64,"
     "'attention_bias':true,'attention_out_bias':false,'mlp_bias':false}",
     G_GINT64_CONSTANT(28921040896)},
    {"{'model_type':'exaone4','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':32,"
     "'intermediate_size':16384,'vocab_size':102400,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'sliding_window':4096}",
     G_GINT64_CONSTANT(9429069824)},
    {"{'model_type':'phimoe','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':8,"
     "'intermediate_size':6400,'vocab_size':32064,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':true,'lm_head_bias':true,'num_local_experts':16,'num_experts_per_tok':2}",
     G_GINT64_CONSTANT(41873153344)},
    {"{'model_type':'arcee','hidden_size':2560,'num_attention_heads':32,'num_key_value_heads':32,'head_dim':80,"
     "'intermediate_size':18432,'vocab_size':32000,'tie_word_embeddings':false,'num_hidden_layers':32,"
     "'attention_bias':false,'mlp_bias':false}",
     G_GINT64_CONSTANT(4022766080)},
    {"{'model_type':'helium','hidden_size':2560,'num_attention_heads':20,'num_key_value_heads':20,'head_dim':128,"
     "'intermediate_size':7040,'vocab_size':48000,'tie_word_embeddings':false,'num_hidden_layers':24,"
     "'attention_bias':false,'mlp_bias':false}",
     G_GINT64_CONSTANT(2172643840)},
    {"{'model_type':'ernie4_5','hidden_size':1024,'num_attention_heads':16,'num_key_value_heads':2,'head_dim':128,"
     "'intermediate_size':3072,'vocab_size':103424,'tie_word_embeddings':true,'num_hidden_layers':18,"
     "'use_bias':false}",
     G_GINT64_CONSTANT(360748032)},
    /* small ones of transformers 5.24's classes */
    {"{'model_type':'ernie4_5_moe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'moe_intermediate_size':32,"
     "'moe_num_experts':8,'moe_k':2,'moe_num_shared_experts':1,'moe_layer_start_index':1,"
     "'moe_layer_end_index':4,'moe_layer_interval':1}",
     398688},
    {"{'model_type':'ernie4_5_moe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'moe_intermediate_size':32,"
     "'moe_num_experts':8,'moe_k':2,'moe_layer_interval':2,'moe_layer_start_index':2,'moe_layer_end_index':5}",
     336208},
    {"{'model_type':'exaone_moe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'moe_intermediate_size':32,"
     "'num_experts':8,'num_experts_per_tok':2,'num_shared_experts':2,'first_k_dense_replace':2,"
     "'sliding_window':16}",
     487456},
    {"{'model_type':'glm4_moe_lite','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':4,'moe_intermediate_size':32,"
     "'n_routed_experts':8,'num_experts_per_tok':2,'mlp_layer_types':['dense','sparse','sparse','dense',"
     "'sparse','sparse'],'q_lora_rank':24,'kv_lora_rank':16,'qk_nope_head_dim':12,'qk_rope_head_dim':4,"
     "'v_head_dim':20}",
     458320},
    {"{'model_type':'hy_v3','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':2,'head_dim':24,'moe_intermediate_size':32,'num_experts':8,"
     "'num_experts_per_tok':2}",
     537224},
    {"{'model_type':'youtu','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':4,'q_lora_rank':24,'kv_lora_rank':16,'qk_nope_head_dim':12,"
     "'qk_rope_head_dim':4,'v_head_dim':20}",
     244784},
    {"{'model_type':'minicpm3','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':4,'q_lora_rank':24,'kv_lora_rank':16,'qk_nope_head_dim':12,"
     "'qk_rope_head_dim':4,'v_head_dim':20}",
     244784},
    {"{'model_type':'granite_swa','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'layer_types':['full_attention',"
     "'sliding_attention','full_attention','sliding_attention','full_attention','sliding_attention']}",
     249176},
    {"{'model_type':'granitemoe_swa','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'num_local_experts':8,"
     "'num_experts_per_tok':2}",
     1090392},
    {"{'model_type':'stablelm','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':2,'use_qkv_bias':true}",
     314752},
    {"{'model_type':'stablelm','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':2,'use_parallel_residual':true}",
     313216},
    {"{'model_type':'afmoe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':2,'head_dim':24,'moe_intermediate_size':32,'num_experts':8,"
     "'num_experts_per_tok':2,'num_shared_experts':1,'num_dense_layers':2}",
     537472},
    {"{'model_type':'cohere2_moe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'head_dim':16,'num_experts':8,"
     "'num_experts_per_tok':2,'num_shared_experts':1}",
     1136576},
    {"{'model_type':'dots1','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':2,'pad_token_id':0,'n_routed_experts':8,'n_shared_experts':1,"
     "'first_k_dense_replace':1,'moe_intermediate_size':32,'num_experts_per_tok':2}",
     500264},
    {"{'model_type':'hunyuan_v1_dense','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'pad_token_id':0,'head_dim':24}",
     350304},
    {"{'model_type':'hunyuan_v1_moe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'pad_token_id':0,'head_dim':24,"
     "'num_experts':8,'moe_topk':2}",
     1238112},
    {"{'model_type':'sarvam_moe','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':2,'pad_token_id':0,"
     "'n_routed_experts':8,'first_k_dense_replace':2,'moe_intermediate_size':32,'num_experts_per_tok':2}",
     684640},
    {"{'model_type':'sarvam_mla','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,"
     "'num_attention_heads':4,'intermediate_size':96,'num_key_value_heads':4,'n_routed_experts':8,"
     "'n_shared_experts':2,'moe_intermediate_size':32,'num_experts_per_tok':2,'kv_lora_rank':16,"
     "'qk_nope_head_dim':12,'qk_rope_head_dim':4,'v_head_dim':20}",
     532424},
    {"{'model_type':'exaone','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'intermediate_size':96,'num_key_value_heads':2,'pad_token_id':0}",
     313152},
    {"{'model_type':'kolibri1','hidden_size':64,'num_hidden_layers':6,'vocab_size':1000,'num_attention_heads':4,"
     "'num_key_value_heads':2,'pad_token_id':0,'head_dim':24,'num_local_experts':8,"
     "'shared_expert_intermediate_size':40,'moe_intermediate_size':32,'num_experts_per_tok':2}",
     584592},
    /* defaults again */
    {"{'model_type':'ministral3','hidden_size':4096,'num_attention_heads':32,'num_key_value_heads':8,"
     "'head_dim':128,'intermediate_size':14336,'vocab_size':131072,'tie_word_embeddings':false,"
     "'num_hidden_layers':34}",
     G_GINT64_CONSTANT(8489553920)},
    {"{'model_type':'gpt_bigcode','num_key_value_heads':1,'vocab_size':50257,'tie_word_embeddings':true,"
     "'n_embd':768,'n_layer':12,'n_head':12,'multi_query':true}",
     G_GINT64_CONSTANT(111446784)},
    {"{'model_type':'gpt_bigcode','vocab_size':50257,'tie_word_embeddings':true,'n_embd':768,'n_layer':12,"
     "'n_head':12,'multi_query':false}",
     G_GINT64_CONSTANT(124439808)},
    {"{'model_type':'codegen','vocab_size':50400,'tie_word_embeddings':false,'n_embd':4096,'n_layer':28,"
     "'n_head':16}",
     G_GINT64_CONSTANT(6050882784)},
    {"{'model_type':'kimi_k2','hidden_size':7168,'num_attention_heads':64,'num_key_value_heads':64,"
     "'intermediate_size':18432,'vocab_size':163840,'tie_word_embeddings':false,'num_hidden_layers':61,"
     "'attention_bias':false,'num_experts_per_tok':8,'moe_intermediate_size':2048,'n_shared_experts':1,"
     "'n_routed_experts':384,'first_k_dense_replace':1,'q_lora_rank':1536,'kv_lora_rank':512,"
     "'qk_nope_head_dim':128,'qk_rope_head_dim':64,'v_head_dim':128}",
     G_GINT64_CONSTANT(1026408232448)},
    {"{'model_type':'glm_moe_dsa','hidden_size':6144,'num_hidden_layers':78,'vocab_size':154880,"
     "'num_attention_heads':64,'intermediate_size':12288,'moe_intermediate_size':2048,'n_routed_experts':256,"
     "'n_shared_experts':1,'num_experts_per_tok':8,'first_k_dense_replace':3,'q_lora_rank':2048,'kv_lora_rank':512,"
     "'qk_nope_head_dim':192,'qk_rope_head_dim':64,'v_head_dim':256,'index_n_heads':32,'index_head_dim':128,"
     "'index_topk':2048,'tie_word_embeddings':false}",
     G_GINT64_CONSTANT(743911218432)},
    {"{'model_type':'llama4_text','hidden_size':5120,'num_hidden_layers':48,'vocab_size':202048,"
     "'num_attention_heads':40,'num_key_value_heads':8,'head_dim':128,'intermediate_size':8192,"
     "'intermediate_size_mlp':16384,'num_local_experts':16,'num_experts_per_tok':1,'interleave_moe_layer_step':1,"
     "'use_qk_norm':true,'attention_chunk_size':8192,'tie_word_embeddings':false}",
     G_GINT64_CONSTANT(107769861120)},
    {"{'model_type':'llama4','text_config':{'model_type':'llama4_text','hidden_size':5120,'num_hidden_layers':48,"
     "'vocab_size':202048,'num_attention_heads':40,'num_key_value_heads':8,'head_dim':128,'intermediate_size':8192,"
     "'intermediate_size_mlp':16384,'num_local_experts':128,'num_experts_per_tok':1,'interleave_moe_layer_step':2,"
     "'use_qk_norm':false,'attention_chunk_size':8192,'tie_word_embeddings':false}}",
     G_GINT64_CONSTANT(400711848960)},
    {"{'model_type':'nemotron_h','hidden_size':2688,'num_hidden_layers':52,'vocab_size':131072,"
     "'num_attention_heads':32,'num_key_value_heads':2,'head_dim':128,'mamba_num_heads':64,'mamba_head_dim':64,"
     "'ssm_state_size':128,'n_groups':8,'conv_kernel':4,'use_bias':false,'use_conv_bias':true,"
     "'hybrid_override_pattern':'MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME','intermediate_size':1856,"
     "'n_routed_experts':128,'n_shared_experts':1,'num_experts_per_tok':6,'moe_intermediate_size':1856,"
     "'moe_shared_expert_intermediate_size':3712,'moe_latent_size':null}",
     G_GINT64_CONSTANT(31577940288)},
    {"{'model_type':'nemotron_h','hidden_size':4096,'num_hidden_layers':null,'vocab_size':131072,"
     "'num_attention_heads':32,'num_key_value_heads':2,'mamba_num_heads':128,'layers_block_type':["
     "'mamba','moe','mamba','attention','moe','mamba','mlp'],'intermediate_size':2688,'n_routed_experts':512,"
     "'num_experts_per_tok':22,'moe_intermediate_size':2688,'moe_latent_size':1024,"
     "'moe_shared_expert_intermediate_size':5376}",
     G_GINT64_CONSTANT(7206551680)},
    {"{'model_type':'mamba2','hidden_size':2560,'num_hidden_layers':64,'vocab_size':50288,'num_heads':80,"
     "'head_dim':64,'state_size':128,'n_groups':1,'conv_kernel':4,'expand':2,'use_bias':false,"
     "'tie_word_embeddings':true,'seq':2048}",
     G_GINT64_CONSTANT(2702599680)},
    {"{'model_type':'granitemoehybrid','hidden_size':1536,'num_hidden_layers':4,'vocab_size':100352,"
     "'num_attention_heads':12,'num_key_value_heads':4,'mamba_n_heads':48,'mamba_d_head':64,'mamba_d_state':128,"
     "'mamba_n_groups':1,'layer_types':['mamba','mamba','attention','mamba'],'intermediate_size':512,"
     "'shared_intermediate_size':1024,'num_local_experts':64,'num_experts_per_tok':6,'tie_word_embeddings':true,"
     "'position_embedding_type':'nope'}",
     G_GINT64_CONSTANT(827621040)},
    {"{'model_type':'bamba','hidden_size':4096,'num_hidden_layers':32,'vocab_size':128256,'num_attention_heads':32,"
     "'num_key_value_heads':8,'intermediate_size':14336,'mamba_n_heads':128,'mamba_d_head':64,'mamba_d_state':128,"
     "'mamba_n_groups':1,'attn_layer_indices':[9,18,27]}",
     G_GINT64_CONSTANT(9780235392)},
    {"{'model_type':'qwen3_next','hidden_size':2048,'num_hidden_layers':48,'vocab_size':151936,"
     "'num_attention_heads':16,'num_key_value_heads':2,'head_dim':256,'intermediate_size':5120,"
     "'linear_num_value_heads':32,'linear_num_key_heads':16,'linear_key_head_dim':128,'linear_value_head_dim':128,"
     "'linear_conv_kernel_dim':4,'full_attention_interval':4,'num_experts':512,'num_experts_per_tok':10,"
     "'moe_intermediate_size':512,'shared_expert_intermediate_size':512,'tie_word_embeddings':false}",
     G_GINT64_CONSTANT(79674391296)},
    {"{'model_type':'minimax','hidden_size':6144,'num_hidden_layers':8,'vocab_size':200064,'num_attention_heads':64,"
     "'num_key_value_heads':8,'head_dim':128,'intermediate_size':9216,'num_local_experts':32,"
     "'num_experts_per_tok':2,'attn_type_list':[0,0,0,0,0,0,0,1],'tie_word_embeddings':false}",
     G_GINT64_CONSTANT(47821518848)},
  };
  for (gsize i = 0; i < G_N_ELEMENTS(cases); i++) {
    g_autoptr(Model) m = read_quoted(cases[i].text);
    ck_assert_msg(m->params == cases[i].params, "%s: %" G_GINT64_FORMAT ", expected %" G_GINT64_FORMAT, cases[i].text,
                  m->params, cases[i].params);
  }
}
END_TEST

#define SIZES                                                                                                \
  "'hidden_size':64,'num_hidden_layers':8,'vocab_size':100,'num_attention_heads':4,'num_key_value_heads':2," \
  "'intermediate_size':96"

/* The decoder of a model for images; its keys stand in an object, whether tied or not beside it. */
START_TEST(decoders_inside)
{
  g_autoptr(Model) alone = read_quoted("{'model_type':'qwen3_vl_text'," SIZES ",'tie_word_embeddings':true}");
  g_autoptr(Model) inside = read_quoted("{'model_type':'qwen3_vl','vision_config':{'hidden_size':8},"
                                        "'tie_word_embeddings':true,"
                                        "'text_config':{'model_type':'qwen3_vl_text'," SIZES "}}");
  g_autoptr(Model) mistral = read_quoted("{'model_type':'mistral3','text_config':{'model_type':'mistral'," SIZES "}}");
  g_autofree char *unknown = quoted("{'model_type':'any','text_config':{'model_type':'qwen3_vl_tex'," SIZES "}}");

  ck_assert_int_eq(inside->params, alone->params);
  ck_assert(inside->tied_embeddings);
  ck_assert_str_eq(mistral->family, "mistral");
  refused(unknown, "f: text_config.model_type: \"qwen3_vl_tex\": expected one of those that tdp-plan --list kinds "
                   "names; did you mean \"qwen3_vl_text\"?");
}
END_TEST

/* What decides no count but what runs, or where it can be exported to. */
START_TEST(shapes)
{
  g_autoptr(Model) olmo = read_quoted("{'model_type':'olmo3'," SIZES "}");
  ck_assert(olmo->output_norms && block(olmo, 0)->attention.qk_norm_whole);
  ck_assert_int_eq(block(olmo, 0)->attention.window, 4096);
  ck_assert_int_eq(block(olmo, 3)->attention.window, 0);
  g_autoptr(Model) exaone = read_quoted("{'model_type':'exaone4'," SIZES "}");
  ck_assert(exaone->output_norms && block(exaone, 0)->attention.qk_norm && !block(exaone, 0)->attention.qk_norm_whole);
  g_autoptr(Model) cohere = read_quoted("{'model_type':'cohere2'," SIZES "}");
  ck_assert(block(cohere, 0)->parallel && !cohere->norm_bias && !block(cohere, 0)->attention.qk_norm_whole);
  ck_assert_int_eq(block(cohere, 0)->attention.window, 4096);
  g_autoptr(Model) glm = read_quoted("{'model_type':'glm4'," SIZES "}");
  ck_assert(block(glm, 0)->attention.qkv_bias && !block(glm, 0)->attention.out_bias);
  ck_assert_int_eq(block(glm, 0)->norms, 4);
  ck_assert_double_eq(glm->rotary_share, 0.5);
  g_autoptr(Model) llama4 = read_quoted("{'model_type':'llama4_text','num_local_experts':4," SIZES "}");
  ck_assert(block(llama4, 0)->attention.chunked && block(llama4, 0)->attention.window == 8192);
  ck_assert(!block(llama4, 3)->attention.chunked && !block(llama4, 3)->attention.window && llama4->nope_interval == 4);
  g_autoptr(Model) smol = read_quoted("{'model_type':'smollm3'," SIZES "}");
  ck_assert_int_eq(smol->nope_interval, 4);
  g_autoptr(Model) phi = read_quoted("{'model_type':'phi'," SIZES ",'qk_layernorm':true}");
  ck_assert_int_eq(block(phi, 0)->attention.qk_norm_vectors, 2);
}
END_TEST

TEST_MAIN("model families", counts, decoders_inside, shapes)
