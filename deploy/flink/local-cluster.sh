#!/usr/bin/env bash
# Runs a standalone Flink cluster on this machine (Linux): one job manager and N task managers, each a JVM.
#
# Downloads everything from package registries (PyPI, Maven Central) and keeps it below one folder.
set -euo pipefail

usage() {
  cat <<'USAGE'
usage: local-cluster.sh COMMAND [OPTIONS]

commands
  up                  install if needed, start, wait until all task managers have registered
  down                end what `up` started, and Python workers that it left
  status              print what runs; exit 0 only if all of it does
  start-taskmanager   add a task manager and wait until it has registered
  kill-taskmanager N  kill -9 task manager N (fault tests)
  start-jobmanager    start the job manager again and wait until all task managers have registered
  kill-jobmanager     kill -9 the job manager (fault tests)
  install             download and unpack only

options (or environment)
  --flink-version=V   FLINK_VERSION        1.19.x or 1.20.x (1.19.3, as the tests)
  --task-managers=N   FLINK_TASK_MANAGERS  (2)
  --slots=N           FLINK_SLOTS          task slots of each task manager (1)
  --rest-port=PORT    FLINK_REST_PORT      web page and submissions (8081)
  --rpc-port=PORT     FLINK_RPC_PORT       task managers to job manager (6123)
  --memory=SIZE       FLINK_MEMORY         one task manager's JVM, all included (2000m)
  --settings=FILE     FLINK_SETTINGS       what builds need of any cluster (builds.yaml beside this script)
  --job-server=JAR    FLINK_JOB_SERVER     adds Beam's job server to the libraries, for jobs that start sooner
  --home=DIR          FLINK_HOME_DIR       where everything lives (.cache/flink in the project)
  --run-dir=DIR       FLINK_RUN_DIR        configuration, logs and process numbers of this cluster, so that
                                           several can share one installation (run/ in the home)

Needs Java 11 or 17, Python with pip, curl and unzip. Everything listens on 127.0.0.1 alone.
USAGE
}

fail() {
  echo "local-cluster.sh: $*" >&2
  exit 1
}

need() {
  command -v "$1" >/dev/null || fail "$1 is not installed"
}

# Unzips the wheel for its scripts, so a wheel for any Python works. Installing it with pip would bring an old Beam.
install_flink() {
  [[ -f $dist/.complete ]] && return
  need unzip
  local download=$home/download
  rm -rf "$dist" "$download"
  mkdir -p "$dist" "$download"
  echo "fetching Flink $flink_version from PyPI (235 MB)"
  python3 -m pip download --quiet --no-deps --only-binary=:all: --python-version=3.11 \
    --platform=manylinux2014_x86_64 --dest="$download" "apache-flink==$flink_version"
  python3 -m pip download --quiet --no-deps --no-binary=:all: --dest="$download" \
    "apache-flink-libraries==$flink_version"
  # The name has hyphens in 1.19, underscores in 1.20.
  tar -xzf "$download"/apache[-_]flink[-_]libraries-"$flink_version".tar.gz -C "$dist" --strip-components=2 \
    --wildcards 'apache?flink?libraries-*/deps'
  unzip -q "$download"/apache_flink-*.whl 'pyflink/bin/*' 'pyflink/conf/*' -d "$download"
  cp -r "$download/pyflink/bin" "$download/pyflink/conf" "$dist/"
  chmod +x "$dist"/bin/*
  rm -rf "$download"
  touch "$dist/.complete"
}

write_configuration() {
  mkdir -p "$run/conf" "$run/log" "$run/tmp"
  cp "$dist"/conf/log4j* "$run/conf/"
  # Without this logger Beam discards the output of its Python workers, and a crash would leave no trace.
  cat >>"$run/conf/log4j-console.properties" <<'LOGGING'

logger.beamworkers.name = org.apache.beam.runners.fnexecution.environment.ProcessManager
logger.beamworkers.level = DEBUG
LOGGING
  # Flink's own configuration lists the modules that Java 17 must open.
  local java_options
  java_options=$(sed -n 's/^ *all: //p' "$dist/conf/config.yaml")
  [[ $java_options == *--add-opens* ]] || fail "no Java options in $dist/conf/config.yaml"
  cat >"$run/conf/config.yaml" <<CONFIG
env.java.opts.all: $java_options
env.log.dir: $run/log
env.pid.dir: $run/tmp
io.tmp.dirs: $run/tmp
jobmanager.rpc.address: 127.0.0.1
jobmanager.rpc.port: $rpc_port
jobmanager.bind-host: 127.0.0.1
jobmanager.memory.process.size: 1200m
rest.address: 127.0.0.1
rest.bind-address: 127.0.0.1
rest.port: $rest_port
taskmanager.host: 127.0.0.1
taskmanager.bind-host: 127.0.0.1
taskmanager.numberOfTaskSlots: $slots
taskmanager.memory.process.size: $memory
# Uses one slot on each task manager before a second one on any.
taskmanager.load-balance.mode: SLOTS
# Retries soon (default: 10 s) if a task manager starts before the job manager listens. 1.19 takes numbers only.
cluster.registration.error-delay: 500
# Milliseconds until a silent task manager counts as lost (default: 50 s).
heartbeat.interval: 2000
heartbeat.timeout: 15000
CONFIG
  rm -rf "${run:?}/lib"
  if [[ -n $job_server ]]; then
    mkdir "$run/lib"
    ln -s "$dist"/lib/*.jar "$(realpath "$job_server")" "$run/lib"
  fi
  # A shorter delay suffices, because a local task manager need not wait for a machine.
  sed 's/^\(restart-strategy.*delay\): .*/\1: 2s/' "$settings" >>"$run/conf/config.yaml"
}

# Checks the mark in the environment, because the system may have reused the process number.
is_ours() {
  [[ -n $1 ]] || return 1
  # During exec, as when Flink's scripts become Java, a process shows no environment.
  for _ in 1 2 3 4 5; do
    grep -qazxF "FLINK_LOCAL_CLUSTER=$run" "/proc/$1/environ" 2>/dev/null && return
    kill -0 "$1" 2>/dev/null || return 1
    sleep 0.02
  done
  return 1
}

pid_of() {
  cat "$run/$1.pid" 2>/dev/null || true
}

# Prints the names of the task managers whose JVM is alive.
live_taskmanagers() {
  local file name
  for file in "$run"/taskmanager-*.pid; do
    name=$(basename "$file" .pid)
    if is_ours "$(pid_of "$name")"; then echo "$name"; fi
  done
}

start_jvm() {
  local name=$1 libraries=$dist/lib
  shift
  [[ -d $run/lib ]] && libraries=$run/lib
  # Starts a new session, so that neither a closed terminal nor a signal to the caller's group ends it.
  FLINK_LOCAL_CLUSTER=$run FLINK_CONF_DIR=$run/conf FLINK_LIB_DIR=$libraries FLINK_IDENT_STRING=$name \
    setsid "$@" </dev/null >"$run/log/$name.out" 2>&1 &
  local pid=$!
  echo "$pid" >"$run/$name.pid"
  until is_ours "$pid" || ! kill -0 "$pid" 2>/dev/null; do sleep 0.02; done
}

start_jobmanager() {
  start_jvm jobmanager "$dist/bin/jobmanager.sh" start-foreground
}

start_taskmanager() {
  local number=1
  while is_ours "$(pid_of "taskmanager-$number")"; do number=$((number + 1)); done
  # Each start gets a new id, so that Flink does not mistake the task manager for a killed one of the same name.
  local name=taskmanager-$number
  local resource=$name-$EPOCHSECONDS
  echo "$resource" >"$run/$name.resource"
  start_jvm "$name" "$dist/bin/taskmanager.sh" start-foreground -D "taskmanager.resource-id=$resource"
}

# Prints the address of the running cluster.
address() {
  echo "http://127.0.0.1:$(sed -n 's/^rest.port: //p' "$run/conf/config.yaml")"
}

rest() {
  curl --silent --fail --max-time 5 "$(address)$1"
}

all_registered() {
  local answer name
  answer=$(rest /taskmanagers) || return 1
  for name in $(live_taskmanagers); do
    [[ $answer == *"\"id\":\"$(<"$run/$name.resource")\""* ]] || return 1
  done
}

wait_until_registered() {
  local wanted=$1 deadline=$((SECONDS + 120))
  until all_registered; do
    is_ours "$(pid_of jobmanager)" || fail "the job manager ended; see $run/log"
    (($(live_taskmanagers | wc -l) >= wanted)) || fail "a task manager ended; see $run/log"
    ((SECONDS < deadline)) || fail "not ready after 120 s; see $run/log"
    sleep 0.3
  done
}

up() {
  need java
  need curl
  install_flink
  if is_ours "$(pid_of jobmanager)"; then
    [[ $(address) == *:$rest_port ]] || fail "already up at $(address); run 'down' first"
  else
    if (exec 3<>"/dev/tcp/127.0.0.1/$rest_port") 2>/dev/null; then
      fail "port $rest_port is taken; choose another with --rest-port"
    fi
    write_configuration
    echo "$flink_version" >"$run/version"
    start_jobmanager
  fi
  while (($(live_taskmanagers | wc -l) < task_managers)); do start_taskmanager; done
  wait_until_registered "$task_managers"
  status
}

down() {
  local name
  for name in $(live_taskmanagers) jobmanager; do
    if is_ours "$(pid_of "$name")"; then kill "$(pid_of "$name")"; fi
  done
  local deadline=$((SECONDS + 15))
  for name in $(live_taskmanagers) jobmanager; do
    while is_ours "$(pid_of "$name")" && ((SECONDS < deadline)); do sleep 0.2; done
  done
  # Kills workers of killed task managers, and JVMs that did not end.
  local environment pid
  for environment in /proc/[0-9]*/environ; do
    if grep -qazxF "FLINK_LOCAL_CLUSTER=$run" "$environment" 2>/dev/null; then
      pid=$(basename "$(dirname "$environment")")
      kill -9 "$pid" 2>/dev/null || true
    fi
  done
  rm -f "$run"/*.pid "$run"/*.resource
}

status() {
  local name answer
  if ! is_ours "$(pid_of jobmanager)" || ! answer=$(rest /overview); then
    echo "down"
    return 1
  fi
  echo "jobmanager     process $(pid_of jobmanager)  $(address)"
  for name in $(live_taskmanagers); do echo "$name  process $(pid_of "$name")"; done
  [[ $answer =~ '"slots-total":'([0-9]+),'"slots-available":'([0-9]+) ]] &&
    echo "slots          ${BASH_REMATCH[1]}, free ${BASH_REMATCH[2]}"
  all_registered
}

kill_now() {
  local pid
  pid=$(pid_of "$1")
  is_ours "$pid" || fail "$1 does not run"
  kill -9 "$pid"
  while is_ours "$pid"; do sleep 0.02; done
}

project=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
home=${FLINK_HOME_DIR:-$project/.cache/flink}
flink_version=${FLINK_VERSION:-}
task_managers=${FLINK_TASK_MANAGERS:-2}
slots=${FLINK_SLOTS:-1}
rest_port=${FLINK_REST_PORT:-8081}
rpc_port=${FLINK_RPC_PORT:-6123}
memory=${FLINK_MEMORY:-2000m}
settings=${FLINK_SETTINGS:-$(dirname "${BASH_SOURCE[0]}")/builds.yaml}
job_server=${FLINK_JOB_SERVER:-}
run=${FLINK_RUN_DIR:-}
words=()
for argument in "$@"; do
  case $argument in
    --flink-version=*) flink_version=${argument#*=} ;;
    --task-managers=*) task_managers=${argument#*=} ;;
    --slots=*) slots=${argument#*=} ;;
    --rest-port=*) rest_port=${argument#*=} ;;
    --rpc-port=*) rpc_port=${argument#*=} ;;
    --memory=*) memory=${argument#*=} ;;
    --settings=*) settings=${argument#*=} ;;
    --job-server=*) job_server=${argument#*=} ;;
    --home=*) home=${argument#*=} ;;
    --run-dir=*) run=${argument#*=} ;;
    -h | --help) usage && exit ;;
    -*) fail "unknown option $argument; see --help" ;;
    *) words+=("$argument") ;;
  esac
done
run=${run:-$home/run}
mkdir -p "$home" "$run"
home=$(cd "$home" && pwd)
run=$(cd "$run" && pwd)
# A cluster that was started before keeps its version.
flink_version=${flink_version:-$(cat "$run/version" 2>/dev/null || echo 1.19.3)}
dist=$home/dist-$flink_version

case ${words[0]:-} in
  up) up ;;
  down) down ;;
  status) status ;;
  start-taskmanager)
    is_ours "$(pid_of jobmanager)" || fail "the cluster is down"
    start_taskmanager
    wait_until_registered 1
    ;;
  kill-taskmanager) kill_now "taskmanager-${words[1]:?which task manager, 1 or more}" ;;
  start-jobmanager)
    is_ours "$(pid_of jobmanager)" && fail "the job manager runs"
    start_jobmanager
    wait_until_registered 1
    ;;
  kill-jobmanager) kill_now jobmanager ;;
  install) install_flink ;;
  *)
    usage >&2
    exit 2
    ;;
esac
