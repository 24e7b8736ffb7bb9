#!/bin/sh
# A runner that trains nothing: the name in its settings (agent_fixture.h) chooses its behavior.
# It implements docs/protocol.md section 2 like the real one, or, with most names, violates it.
if [ "${1:-}" = --about ]; then # it computes nothing
    echo '{"engine":"none","codec_abi":0,"frame_version":0}'
    exit
fi
emit() { printf '%s\n' "$1" >>events.jsonl; }
# The model of agent_fixture.h after step 4, whose weights are zeros.
write_model() {
    id=$(printf '%s' "$job" | sed 's/.*"job":"\([^"]*\)".*/\1/')
    header="{\"__metadata__\":{\"job_id\":\"$id\",\"step\":\"4\"},\"layer0.dense.weight\":{\"dtype\":\"F32\",\"shape\":[1,1],\"data_offsets\":[0,4]},\"layer0.dense.bias\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}"
    printf '%-248s' "$header" | { printf '\370\0\0\0\0\0\0\0' && cat && printf '\0\0\0\0\0\0\0\0'; } >final.safetensors.tmp
    mv final.safetensors.tmp final.safetensors
}
behave=$(sed -n 's/.*"name":"\([a-z_]*\)".*/\1/p' ../packages/settings.json)
read -r job <&3 || exit 3
echo "fake runner: $job"
case $behave in
fail_load) emit '{"event":"end","state":"failed","reason":"CodecLoadFailed","message":"no such symbol"}'; exit 1 ;;
exit_early) echo "giving up"; exit 0 ;;
crash_early) kill -SEGV $$ ;;
recant) emit '{"event":"end","state":"cancelled","reason":"UserCancelled","message":"of course"}'; exit 0 ;;
alibi) emit '{"event":"end","state":"failed","reason":"AgentRestarted","message":"again, please"}'; exit 1 ;;
too_eager) emit '{"event":"end","state":"succeeded"}'; exit 0 ;;
unresponsive) trap '' TERM ;;
stumble) trap 'emit "{\"event\":\"end\",\"state\":\"failed\",\"reason\":\"CodecFailed\",\"message\":\"malformed\"}"; exit 1' TERM ;;
linger) trap 'emit "{\"event\":\"end\",\"state\":\"cancelled\",\"reason\":\"UserCancelled\"}"; sleep 300' TERM ;;
*) trap 'emit "{\"event\":\"end\",\"state\":\"cancelled\",\"reason\":\"UserCancelled\",\"message\":\"stopped\"}"; exit 0' TERM ;;
esac
emit '{"event":"ready","codec_sha256":"00","n_params":10,"data_key":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}'
if ! read -r start <&3; then
    # The agent ended before the start: so does the runner, unless the test wants it to be killed.
    [ "$behave" = unresponsive ] || exit 0
fi
printf '%s' "$start" >start.json
case $behave in
birth)
    # shellcheck disable=SC3045,SC2046 # dash has these limits; the fields of stat are words
    {
        printf 'fds: '; (cd /proc/$$/fd && for f in *; do [ "$f" -lt 10 ] && printf '%s ' "$f"; done); echo
        echo "stdin: $(readlink /proc/$$/fd/0)"
        echo "files: $(ulimit -n)"; echo "core: $(ulimit -c)"
        set -- $(cat /proc/$$/stat); [ "$5" = $$ ] && [ "$6" = $$ ] && echo 'leader: yes'
        grep NoNewPrivs /proc/$$/status
        tr '\0' '\n' </proc/$$/environ
    } >birth.txt ;;
crash) i=0; while [ $i -lt 30 ]; do echo "log line $i"; i=$((i + 1)); done; kill -SEGV $$ ;;
noise) printf 'not json\n{"event":"progress"}\n{"event":"state","state":"running"}\n' >>events.jsonl
       printf '{"event":"model"\n{"event":"model","step":4,"error":7}\n{"event":"model","step":4}\n' >>events.jsonl
       head -c 5000 /dev/zero | tr '\0' x >>events.jsonl; emit '' ;;
orphans) for i in 1 2 3 4 5; do setsid sh -c 'sh -c "echo \$\$ >>orphans.pid; exec sleep 300" &' & done
         while [ "$(wc -l <orphans.pid 2>/dev/null)" != 5 ]; do sleep 0.05; done ;;
family) (trap '' TERM; sleep 300) & (trap '' TERM; sleep 300) & echo "$!" >child.pid ;;
esac
printf 'time_s,node,role,epoch,batch,batches,step\n0.1,0,worker,2,2,2,4\n' >train.csv
i=1
while [ "$behave" = forever ] || [ "$behave" = unresponsive ] || [ "$behave" = family ] || [ "$behave" = linger ] || [ "$behave" = stumble ] || [ $i -le 4 ]; do
    emit "{\"event\":\"progress\",\"epoch\":1,\"epochs\":2,\"step\":$i,\"steps\":4,\"loss\":0.4,\"accuracy\":null,\"sent_bytes\":$i,\"recv_bytes\":1}"
    i=$((i + 1))
    sleep 0.05
done
printf 'half a row' >>train.csv
emit '{"event":"eval","epoch":2,"step":4,"loss":0.2,"accuracy":0.94}'
emit '{"event":"log","level":"info","text":"bye"}'
[ "$behave" = links ] && ln -s /etc/passwd eval.csv && mkfifo comm.csv && ln train.csv best.safetensors
[ "$behave" = links ] || : | tee eval.csv >comm.csv
write_model
emit '{"event":"end","state":"succeeded","reason":null,"message":"2 epochs"}'
