# namespaces.bash -- networks and disks for one test. They belong to processes that the test keeps, and disappear with these,
# however the test ends. Root makes them directly, other users in a user namespace, where the kernel has them.
# shellcheck shell=bash disable=SC2034 # variables are used by the tests

PATH=$PATH:/usr/sbin:/sbin # ip and nft, which an ordinary user's may lack

# The two ways, as an option of unshare: without a user namespace, and as its root.
USER_WAYS=("" "-r")

# hold KIND [COMMAND...]: a process with namespaces of these kinds, as "-n" or "-m", started by COMMAND, if given. Its pid is
# HOLDER. Fails if that is not permitted.
hold() {
    local kind=$1 ready=$HOME_OF_TEST/ready-${#HOLDERS[@]}
    shift
    rm -f "$ready"
    # shellcheck disable=SC2016,SC2086 # expanded by the other shell; split into words
    "$@" unshare $kind sh -c 'echo >"$1" && exec sleep "$2"' sh "$ready" "$TEST_LIMIT" 2>/dev/null 3>&- &
    HOLDER=$!
    disown "$HOLDER" # so that the shell does not print its end
    HOLDERS+=("$HOLDER")
    within 60 is_held "$ready" "$HOLDER" && [ -s "$ready" ]
}

is_held() { [ -s "$1" ] || has_ended "$2"; }

enter() { # enter WAY KIND PID: sets ENTERED, the command that enters its namespaces
    ENTERED=(nsenter -t "$3" "$2")
    [ -z "$1" ] || ENTERED+=(-U --preserve-credentials)
}

# make_disk SIZE[,OPTION...] FOLDER: under ON_DISK, a command, the folder is an empty disk of that size; otherwise it is a folder. Skips
# if that is not permitted.
make_disk() {
    local way
    mkdir -p "$2"
    for way in "${USER_WAYS[@]}"; do
        hold "$way -m" || continue
        enter "$way" -m "$HOLDER"
        ON_DISK=("${ENTERED[@]}")
        ! "${ON_DISK[@]}" mount -t tmpfs -o mode=700,size="$1" tmpfs "$2" 2>/dev/null || return 0
    done
    skip "a disk of one's own is not to be had here: root, or user namespaces"
}

# make_names LINE...: NAMED is a command under which /etc/hosts has these lines. Skips if that is not permitted.
make_names() {
    local way
    printf '%s\n' "$@" >"$HOME_OF_TEST/hosts"
    for way in "${USER_WAYS[@]}"; do
        hold "$way -m" || continue
        enter "$way" -m "$HOLDER"
        NAMED=("${ENTERED[@]}" -w) # in the folder of the test
        ! "${NAMED[@]}" mount --bind "$HOME_OF_TEST/hosts" /etc/hosts 2>/dev/null || return 0
    done
    skip "a file of names of one's own is not to be had here: root, or user namespaces"
}

# make_network: WORLD is a command that enters 10.77.0.1 on a bridge, NODE0 and NODE1 .2 and .3, each behind a `cable`.
# Skips if that is not permitted.
make_network() {
    local way
    NET=10.77.0
    command -v ip >/dev/null || skip "networks of one's own need iproute2"
    for way in "${USER_WAYS[@]}"; do
        hold "$way -n" || continue
        enter "$way" -n "$HOLDER"
        WORLD=("${ENTERED[@]}")
        ! try_network "$way" 2>/dev/null || return 0
    done
    skip "networks of one's own are not to be had here: root, or user namespaces"
}

try_network() { # try_network WAY
    local n
    "${WORLD[@]}" ip link add bridge0 type bridge && "${WORLD[@]}" ip addr add "$NET.1/24" dev bridge0 &&
        "${WORLD[@]}" ip link set bridge0 up && "${WORLD[@]}" ip link set lo up || return 1
    for n in 0 1; do
        hold -n "${WORLD[@]}" && "${WORLD[@]}" ip link add "port$n" type veth peer name cable netns "$HOLDER" || return 1
        enter "$1" -n "$HOLDER"
        if [ $n -eq 0 ]; then NODE0=("${ENTERED[@]}"); else NODE1=("${ENTERED[@]}"); fi
        "${WORLD[@]}" ip link set "port$n" master bridge0 up && "${ENTERED[@]}" ip addr add "$NET.$((n + 2))/24" dev cable &&
            "${ENTERED[@]}" ip link set cable up && "${ENTERED[@]}" ip link set lo up || return 1
    done
}

# without_namespaces COMMAND...: afresh, where namespaces are forbidden, as on a hardened machine. Skips if that is impossible.
without_namespaces() {
    if ! unshare -r true 2>/dev/null; then # there are none; but root needs none
        if [ "$(id -u)" -eq 0 ]; then afresh setpriv --bounding-set=-sys_admin "$@"; else afresh "$@"; fi
        return
    fi
    # Root without its capabilities may not reach a checkout in another user's home.
    # shellcheck disable=SC2016 # the other shell's own
    local none='cd "$0" && for kind in user net mnt; do echo 0 >/proc/sys/user/max_${kind}_namespaces || exit; done && exec "$@"'
    unshare -r sh -c "$none" "$ROOT" true 2>/dev/null || skip "namespaces cannot be forbidden here to a test in $ROOT"
    afresh unshare -r sh -c "$none" "$ROOT" "$@"
}
