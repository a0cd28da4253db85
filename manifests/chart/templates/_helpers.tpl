{{- define "plimsoll.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "plimsoll.fullname" -}}
{{- $name := include "plimsoll.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The name of an object outside the release's namespace, from a list of the root and what the name begins with. It ends with the
release's namespace, so that two releases of one name share no object. Names of namespaces have no dot, so no two such names are equal. */ -}}
{{- define "plimsoll.clusterName" -}}
{{- last . }}.{{ (first .).Release.Namespace }}
{{- end -}}

{{- define "plimsoll.serviceAccountName" -}}
{{- .Values.serviceAccount.name | default (ternary (include "plimsoll.fullname" .) "default" .Values.serviceAccount.create) -}}
{{- end -}}

{{- /* The environment variable GOMEMLIMIT: 90 percent of the given memory limit, in bytes. The rest is for what the Go runtime does not
count. */ -}}
{{- define "plimsoll.goMemoryLimit" -}}
{{- $number := regexFind "^[0-9.]+([eE][-+]?[0-9]+)?" (toString .) -}}
{{- $factors := dict "" 1.0 "m" 1e-3 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 -}}
{{- $factor := get $factors (trimPrefix $number (toString .)) | required (printf "resources.limits.memory: %q must be an amount of bytes such as 4Gi" (toString .)) -}}
- name: GOMEMLIMIT
  value: {{ mulf (float64 $number) $factor 0.9 | floor | printf "%.0f" | quote }}
{{- end -}}

{{- /* The minor versions of Kubernetes that there are images for, from oldest to newest. */ -}}
{{- define "plimsoll.minors" -}}
["1.34", "1.35", "1.36", "1.37"]
{{- end -}}

{{- /* Values that an older chart did not have are missing after helm upgrade --reuse-values, so they have defaults in the templates too. */ -}}
{{- define "plimsoll.port" -}}
{{- .Values.port | default 10259 -}}
{{- end -}}

{{- define "plimsoll.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else if .tag -}}
{{- $minor := regexFind "-k8s[0-9]+[.][0-9]+$" .tag | trimPrefix "-k8s" -}}
{{- $cluster := include "plimsoll.kubernetes" $ -}}
{{- if and $minor (semverCompare (printf "> %s.0" $cluster) (printf "%s.0" $minor)) -}}
{{- fail (printf "image.tag is %s, but the cluster's version is %s, and a kube-scheduler must not be newer than the API server. Leave image.tag empty: the chart then chooses it by the cluster's version" .tag $.Capabilities.KubeVersion.Version) -}}
{{- end -}}
{{ .repository }}:{{ .tag }}
{{- else -}}
{{ .repository }}:{{ include "plimsoll.tag" $ }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The tag of the image for the cluster's minor version or, if the cluster is newer than all images, for the newest. A
kube-scheduler may be older than the API server, but never newer. */ -}}
{{- define "plimsoll.tag" -}}
{{- $minors := fromJsonArray (include "plimsoll.minors" .) -}}
{{- $cluster := include "plimsoll.kubernetes" . -}}
{{- printf "%s-k8s%s" (trimPrefix "v" .Chart.AppVersion) (has $cluster $minors | ternary $cluster (last $minors)) -}}
{{- end -}}

{{- /* The minor version of the cluster, such as 1.36. Fails if there is no image for it. */ -}}
{{- define "plimsoll.kubernetes" -}}
{{- $version := semver .Capabilities.KubeVersion.Version -}}
{{- $oldest := first (fromJsonArray (include "plimsoll.minors" .)) -}}
{{- if semverCompare (printf "< %s.0-0" $oldest) .Capabilities.KubeVersion.Version -}}
{{- fail (printf "the cluster's version is %s, but the oldest image is for Kubernetes %s, and a kube-scheduler must not be newer than the API server. Upgrade the cluster first. With helm template, name the cluster's version in --kube-version" .Capabilities.KubeVersion.Version $oldest) -}}
{{- end -}}
{{- printf "%d.%d" $version.Major $version.Minor -}}
{{- end -}}

{{- /* The apiVersion of MutatingAdmissionPolicy. Fails if the cluster has none. */ -}}
{{- define "plimsoll.admissionVersion" -}}
{{- $group := "admissionregistration.k8s.io" -}}
{{- if semverCompare ">= 1.36.0-0" .Capabilities.KubeVersion.Version -}}
{{ $group }}/v1
{{- else if .Capabilities.APIVersions.Has (printf "%s/v1beta1/MutatingAdmissionPolicy" $group) -}}
{{ $group }}/v1beta1
{{- else -}}
{{- fail (printf "admissionPolicy.enabled: the cluster's version is %s, and it does not serve MutatingAdmissionPolicy, which is on by default from Kubernetes 1.36 on. Upgrade the cluster; or start its API server with --feature-gates=MutatingAdmissionPolicy=true and --runtime-config=%s/v1beta1=true; or leave admissionPolicy out and write schedulerName into the pods. With helm template, name what the cluster serves: --api-versions %s/v1beta1/MutatingAdmissionPolicy" .Capabilities.KubeVersion.Version $group $group) -}}
{{- end -}}
{{- end -}}

{{- define "plimsoll.selectorLabels" -}}
{{- include "plimsoll.componentLabels" (dict "root" . "component" "scheduler") }}
{{- end -}}

{{- define "plimsoll.loadWatcher.fullname" -}}
{{- include "plimsoll.fullname" . }}-load-watcher
{{- end -}}

{{- define "plimsoll.loadWatcher.selectorLabels" -}}
{{- include "plimsoll.componentLabels" (dict "root" . "component" "load-watcher") }}
{{- end -}}

{{- define "plimsoll.componentLabels" -}}
app.kubernetes.io/name: {{ include "plimsoll.name" .root | quote }}
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- /* The labels and annotations of an object, from a dict with root, the component if it is not scheduler, and the object's own labels
and annotations, which win over the common ones. */ -}}
{{- define "plimsoll.metadata" -}}
labels:
  {{- include "plimsoll.componentLabels" (dict "root" .root "component" (.component | default "scheduler")) | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
  helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
  {{- with merge dict (.labels | default dict) (.root.Values.commonLabels | default dict) }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with merge dict (.annotations | default dict) (.root.Values.commonAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* Sets a key of a dict if the key is missing. merge would also overwrite one that is false. */ -}}
{{- define "plimsoll.setDefault" -}}
{{- if not (hasKey (index . 0) (index . 1)) -}}{{- $_ := set (index . 0) (index . 1) (index . 2) -}}{{- end -}}
{{- end -}}

{{- /* The configuration as YAML: .Values.config, with what is missing filled in. */ -}}
{{- define "plimsoll.config" -}}
{{- include "plimsoll.checkConfig" . -}}
{{- $config := deepCopy .Values.config -}}
{{- $election := $config.leaderElection | default dict -}}
{{- $client := $config.clientConnection | default dict -}}
{{- $name := include "plimsoll.fullname" . -}}
{{- $namespace := .Release.Namespace -}}
{{- if eq .Values.target "OpenShift" -}}
{{- $name = "secondary-scheduler" -}}
{{- else if eq .Values.target "StaticPod" -}}
{{- $name = "kube-scheduler" -}}
{{- $namespace = "kube-system" -}}
{{- include "plimsoll.setDefault" (list $client "kubeconfig" "/etc/kubernetes/scheduler.conf") -}}
{{- $_ := set $config "clientConnection" $client -}}
{{- end -}}
{{- include "plimsoll.setDefault" (list $election "leaderElect" true) -}}
{{- include "plimsoll.setDefault" (list $election "resourceName" $name) -}}
{{- include "plimsoll.setDefault" (list $election "resourceNamespace" $namespace) -}}
{{- $_ := set $config "leaderElection" $election -}}
{{- include "plimsoll.setDefault" (list $config "apiVersion" "kubescheduler.config.k8s.io/v1") -}}
{{- include "plimsoll.setDefault" (list $config "kind" "KubeSchedulerConfiguration") -}}
{{- if .Values.decisionRecords.enabled -}}
{{- range $profile := $config.profiles -}}
{{- $plugins := $profile.plugins | default dict -}}
{{- $multiPoint := $plugins.multiPoint | default dict -}}
{{- $recorder := false -}}
{{- range $multiPoint.enabled -}}{{- if eq .name "DecisionRecord" -}}{{- $recorder = true -}}{{- end -}}{{- end -}}
{{- if not $recorder -}}
{{- $_ := set $multiPoint "enabled" (append ($multiPoint.enabled | default list) (dict "name" "DecisionRecord")) -}}
{{- end -}}
{{- $_ := set $plugins "multiPoint" $multiPoint -}}
{{- $_ := set $profile "plugins" $plugins -}}
{{- end -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}

{{- /* Fails on mistakes that a schema cannot express. */ -}}
{{- define "plimsoll.checkConfig" -}}
{{- $_ := include "plimsoll.kubernetes" . -}}
{{- $config := .Values.config -}}
{{- $known := .Files.Get "files/args.schema.json" | fromJson -}}
{{- $definitions := $known.definitions -}}
{{- $default := false -}}
{{- range $i, $profile := $config.profiles -}}
{{- if eq ($profile.schedulerName | default "default-scheduler") "default-scheduler" -}}{{- $default = true -}}{{- end -}}
{{- range $point, $set := ($profile.plugins | default dict) -}}
{{- range $j, $plugin := ($set | default dict).enabled -}}
{{- if has .name $known.otherPlugins -}}
{{- fail (printf "config.profiles[%d].plugins.%s.enabled[%d]: remove %s: it is one of sigs.k8s.io/scheduler-plugins that this scheduler does not have. For pods that need it, run that project's scheduler beside this one, with a schedulerName of its own" $i $point $j .name) -}}
{{- end -}}
{{- include "plimsoll.checkPlugin" (dict "definitions" $definitions "name" .name "path" (printf "config.profiles[%d].plugins.%s.enabled[%d]" $i $point $j)) -}}
{{- end -}}
{{- end -}}
{{- range $j, $plugin := $profile.pluginConfig -}}
{{- include "plimsoll.checkPlugin" (dict "definitions" $definitions "name" .name "path" (printf "config.profiles[%d].pluginConfig[%d]" $i $j)) -}}
{{- $definition := printf "%sArgs" .name -}}
{{- if hasKey $definitions $definition -}}
{{- include "plimsoll.checkFields" (dict "definitions" $definitions "schema" (get $definitions $definition) "value" .args "path" (printf "config.profiles[%d].pluginConfig[%d].args" $i $j)) -}}
{{- end -}}
{{- $provider := ((.args | default dict).metricProvider | default dict) -}}
{{- $where := printf "config.profiles[%d], arguments of %s: metricProvider" $i .name -}}
{{- if hasKey $provider "token" -}}
{{- fail (printf "%s.token would be readable in a ConfigMap. Put the token into a Secret, name the Secret in tokenSecret, and set %s.tokenFile: /etc/plimsoll/token/token" $where "metricProvider") -}}
{{- end -}}
{{- if hasKey $provider "applicationKey" -}}
{{- fail (printf "%s.applicationKey would be readable in a ConfigMap. Put the key into a Secret, name the Secret in applicationKeySecret, and set metricProvider.applicationKeyFile: /etc/plimsoll/application-key/application-key" $where) -}}
{{- end -}}
{{- $userinfo := "^[a-zA-Z]+://[^/?#]*@" -}}
{{- if regexMatch $userinfo ($provider.address | default "") -}}
{{- fail (printf "%s.address holds a user or a password, which would be readable in a ConfigMap. Remove the part before the @. If the source needs a credential, give it a token with tokenSecret and metricProvider.tokenFile" $where) -}}
{{- end -}}
{{- if regexMatch $userinfo ((.args | default dict).watcherAddress | default "") -}}
{{- fail (printf "config.profiles[%d], arguments of %s: watcherAddress holds a user or a password, which would be readable in a ConfigMap. Remove the part before the @" $i .name) -}}
{{- end -}}
{{- $deployment := eq $.Values.target "Deployment" -}}
{{- range $field, $file := dict "statisticsFile" (.args | default dict).statisticsFile "predictedPeak.statisticsFile" ((.args | default dict).predictedPeak | default dict).statisticsFile -}}
{{- if $file -}}
{{- $where := printf "config.profiles[%d], arguments of %s: %s is %s" $i $plugin.name $field $file -}}
{{- $mounted := and ($.Values.statistics | default dict).volume (hasPrefix "/var/lib/plimsoll/" $file) -}}
{{- range $.Values.extraVolumeMounts -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) $file -}}{{- $mounted = true -}}{{- end -}}
{{- end -}}
{{- if and $deployment (not $mounted) -}}
{{- fail (printf "%s, but no volume is mounted there: set statistics.volume, and statisticsFile: /var/lib/plimsoll/statistics" $where) -}}
{{- else if and (not $deployment) (hasPrefix "/var/lib/plimsoll/" $file) -}}
{{- fail (printf "%s, but with target %s nothing is mounted there. Use a path in a directory that exists in the scheduler's container, or leave the field out" $where $.Values.target) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $field, $mount := dict "tokenFile" (dict "dir" "/etc/plimsoll/token/" "what" "Secret" "value" "tokenSecret") "applicationKeyFile" (dict "dir" "/etc/plimsoll/application-key/" "what" "Secret" "value" "applicationKeySecret") "caFile" (dict "dir" "/etc/plimsoll/ca/" "what" "ConfigMap" "value" "caConfigMap") -}}
{{- if hasPrefix $mount.dir (get $provider $field | default "") -}}
{{- if not $deployment -}}
{{- fail (printf "%s.%s is %s, but with target %s nothing is mounted there. Use a path that exists in the scheduler's container, or leave the field out" $where $field (get $provider $field) $.Values.target) -}}
{{- else if not (get $.Values $mount.value | default dict).name -}}
{{- fail (printf "%s.%s is %s, but no %s is mounted there: name it in %s" $where $field (get $provider $field) $mount.what $mount.value) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $default (ne .Values.target "StaticPod") -}}
{{- fail "config.profiles: a profile is named default-scheduler, or has no schedulerName, which means the same. The stock scheduler has a profile of that name, and both would place the same pods. Give the profile another schedulerName; to replace the stock scheduler, see manifests/default-scheduler" -}}
{{- end -}}
{{- if and (not $default) (eq .Values.target "StaticPod") -}}
{{- fail "config.profiles: none is named default-scheduler. With target StaticPod this scheduler replaces the default one, so pods that name no scheduler would never be placed. Add a profile with schedulerName: default-scheduler" -}}
{{- end -}}
{{- if and (eq .Values.target "Deployment") (gt (int .Values.replicas) 1) (hasKey ($config.leaderElection | default dict) "leaderElect") -}}
{{- if not $config.leaderElection.leaderElect -}}
{{- fail (printf "replicas is %d and config.leaderElection.leaderElect is false: all replicas would place the same pods. Leave leaderElect out, or set replicas: 1" (int .Values.replicas)) -}}
{{- end -}}
{{- end -}}
{{- range $i, $flag := .Values.extraArgs -}}
{{- /* kube-scheduler also accepts _ for - in the names of flags. */ -}}
{{- if hasPrefix "--leader-elect" ($flag | replace "_" "-") -}}
{{- fail (printf "extraArgs[%d] is %s, which would override config.leaderElection, but the chart renders permissions, rollout and alerts from config.leaderElection. Set it there, for example config.leaderElection.leaderElect: false together with replicas: 1" $i $flag) -}}
{{- end -}}
{{- end -}}
{{- range $value, $labels := dict "podLabels" .Values.podLabels "commonLabels" .Values.commonLabels "serviceMonitor.labels" .Values.serviceMonitor.labels "prometheusRule.labels" .Values.prometheusRule.labels "recordingRules.labels" (.Values.recordingRules).labels "dashboard.labels" .Values.dashboard.labels -}}
{{- range $label := list "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/version" "helm.sh/chart" "plimsoll.io/scheduler" -}}
{{- if hasKey ($labels | default dict) $label -}}
{{- fail (printf "%s: %s is set by the chart, for its selectors or its admission policy. Remove it" $value $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $value := list "podAnnotations" "commonAnnotations" -}}
{{- if hasKey (get $.Values $value | default dict) "checksum/config" -}}
{{- fail (printf "%s: checksum/config is set by the chart, to restart the pods when config changes. Remove it" $value) -}}
{{- end -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and (eq $.Values.target "Deployment") .enabled (not (kindIs "invalid" .minAvailable)) -}}
{{- $replicas := int $.Values.replicas -}}
{{- $available := int .minAvailable -}}
{{- $text := print .minAvailable -}}
{{- if kindIs "string" .minAvailable -}}
{{- /* Kubernetes rounds a share up. */ -}}
{{- $available = div (add (mul (trimSuffix "%" .minAvailable) $replicas) 99) 100 | int -}}
{{- $text = printf "%s, rounded up to %d," .minAvailable $available -}}
{{- end -}}
{{- if ge $available $replicas -}}
{{- fail (printf "podDisruptionBudget.minAvailable is %s with replicas: %d: no pod could ever be evicted, so no node could be drained. Lower it, or raise replicas" $text $replicas) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.image.pullSecrets -}}
{{- fail "image.pullSecrets: its name is now imagePullSecrets. Move the list there, and set image.pullSecrets: null" -}}
{{- end -}}
{{- if and .Values.existingConfigMap (eq .Values.target "StaticPod") -}}
{{- fail "existingConfigMap: not supported with target StaticPod, whose configuration is a file. Leave it out" -}}
{{- end -}}
{{- if ne .Values.target "Deployment" -}}
{{- if (.Values.statistics | default dict).volume -}}
{{- fail (printf "statistics.volume: not supported with target %s, which mounts no volume. Leave it out" .Values.target) -}}
{{- end -}}
{{- range $value := ternary (list "serviceMonitor" "loadWatcher" "shadow" "rebalancer") (list "serviceMonitor" "prometheusRule" "recordingRules" "dashboard" "loadWatcher" "shadow" "rebalancer") (eq .Values.target "OpenShift") -}}
{{- if (get $.Values $value | default dict).enabled -}}
{{- fail (printf "%s.enabled: not supported with target %s. Leave it out, or install it with a release of target Deployment" $value $.Values.target) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (not (.Values.servingCertificate).secretName) (not .Values.serviceMonitor.insecureSkipVerify) -}}
{{- fail "serviceMonitor.enabled: without servingCertificate.secretName the scheduler makes its own certificate, which Prometheus cannot verify before it sends its token. Name a Secret with a certificate or, if everyone between Prometheus and the scheduler is trusted, set serviceMonitor.insecureSkipVerify: true" -}}
{{- end -}}
{{- $operator := "openshift-secondary-scheduler-operator" -}}
{{- if and (eq .Values.target "OpenShift") (ne .Release.Namespace $operator) -}}
{{- fail (printf "target OpenShift: the namespace is %s, but the Secondary Scheduler Operator reads only its own, %s. Install there: --namespace %s" .Release.Namespace $operator $operator) -}}
{{- end -}}
{{- end -}}

{{- /* Fails on a name that is similar to that of one of Plimsoll's plugins, from a dict with definitions (of args.schema.json), name, and
path (of the plugin). */ -}}
{{- define "plimsoll.checkPlugin" -}}
{{- if not (hasKey .definitions (printf "%sArgs" .name)) -}}
{{- range $definition := keys .definitions | sortAlpha -}}
{{- $plugin := trimSuffix "Args" $definition -}}
{{- /* Of a short name, three letters are too much to be a mistake. */ -}}
{{- if and (ne $plugin $definition) (le (include "plimsoll.distance" (list $.name $plugin) | int) (min 3 (div (len $plugin) 2) | int)) -}}
{{- fail (printf "%s: there is no plugin %s: did you mean %s?" $.path $.name $plugin) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* Fails on a field that the schema does not have, and names the similar one. From a dict with definitions and schema (of
args.schema.json), value, and path (of the value). Values of another type are left to values.schema.json. */ -}}
{{- define "plimsoll.checkFields" -}}
{{- $schema := .schema -}}
{{- if hasKey $schema "$ref" -}}
{{- $schema = get .definitions (trimPrefix "#/definitions/" (get $schema "$ref")) -}}
{{- end -}}
{{- if kindIs "map" .value -}}
{{- range $name, $value := .value -}}
{{- $next := $schema.additionalProperties -}}
{{- if hasKey $schema "properties" -}}
{{- if not (hasKey $schema.properties $name) -}}
{{- $names := keys $schema.properties | sortAlpha -}}
{{- $advice := printf "the fields are %s" (join ", " $names) -}}
{{- with include "plimsoll.similar" (list $name $names) -}}{{- $advice = printf "did you mean %s?" . -}}{{- end -}}
{{- fail (printf "%s.%s: there is no such field: %s" $.path $name $advice) -}}
{{- end -}}
{{- $next = get $schema.properties $name -}}
{{- end -}}
{{- include "plimsoll.checkFields" (dict "definitions" $.definitions "schema" ($next | default dict) "value" $value "path" (printf "%s.%s" $.path $name)) -}}
{{- end -}}
{{- else if kindIs "slice" .value -}}
{{- range $i, $value := .value -}}
{{- include "plimsoll.checkFields" (dict "definitions" $.definitions "schema" ($schema.items | default dict) "value" $value "path" (printf "%s[%d]" $.path $i)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The name of a list that is most similar to another name, from a list of the name and the list; empty if none begins with the
name or differs from it by at most three letters. */ -}}
{{- define "plimsoll.similar" -}}
{{- $name := first . -}}
{{- $best := "" -}}
{{- $least := 4 -}}
{{- range $candidate := last . -}}
{{- $distance := int (include "plimsoll.distance" (list $name $candidate)) -}}
{{- if and (lt $distance $least) (lt $distance (len $candidate)) -}}
{{- $best = $candidate -}}
{{- $least = $distance -}}
{{- else if and (not $best) (hasPrefix (lower $name) (lower $candidate)) -}}
{{- $best = $candidate -}}
{{- end -}}
{{- end -}}
{{- $best -}}
{{- end -}}

{{- /* The number of letters to insert, delete or replace to get from one name to another (Levenshtein), whatever their case. */ -}}
{{- define "plimsoll.distance" -}}
{{- $a := lower (first .) -}}
{{- $b := lower (last .) -}}
{{- $row := until (add1 (len $b) | int) -}}
{{- range $i := until (len $a) -}}
{{- $next := list (add1 $i) -}}
{{- range $j := until (len $b) -}}
{{- $differ := ternary 0 1 (eq (substr $i (add1 $i | int) $a) (substr $j (add1 $j | int) $b)) -}}
{{- $next = append $next (min (add (index $row $j) $differ) (add1 (index $row (add1 $j | int))) (add1 (index $next $j))) -}}
{{- end -}}
{{- $row = $next -}}
{{- end -}}
{{- last $row -}}
{{- end -}}

{{- /* The load sources that the enabled plugins read, as a JSON list of {type, address}. A plugin without arguments, or whose
arguments name no source, reads KubernetesMetricsServer. Prometheus is unselected if a dialect's series are read without a selector. */ -}}
{{- define "plimsoll.sources" -}}
{{- $definitions := (.Files.Get "files/args.schema.json" | fromJson).definitions -}}
{{- $sources := list -}}
{{- range .Values.config.profiles -}}
{{- $arguments := dict -}}
{{- range .pluginConfig -}}{{- $_ := set $arguments .name (.args | default dict) -}}{{- end -}}
{{- $enabled := list -}}
{{- range $point, $set := (.plugins | default dict) -}}
{{- range ($set | default dict).enabled -}}{{- $enabled = append $enabled .name -}}{{- end -}}
{{- end -}}
{{- range $plugin := ($enabled | uniq | sortAlpha) -}}
{{- with get $definitions (printf "%sArgs" $plugin) -}}
{{- $args := get $arguments $plugin | default dict -}}
{{- $provider := $args.metricProvider | default dict -}}
{{- $source := dict "type" ($provider.type | default "KubernetesMetricsServer") "address" ($provider.address | default "") -}}
{{- $queries := $provider.queries | default dict -}}
{{- if and (eq $source.type "Prometheus") (not (hasKey .properties "metrics")) (not $provider.selector) (not (and $queries.cpu $queries.memory)) -}}
{{- $_ := set $source "unselected" true -}}
{{- end -}}
{{- if $args.watcherAddress -}}
{{- $source = dict "type" "LoadWatcher" "address" $args.watcherAddress -}}
{{- end -}}
{{- /* Statistics of workloads have a history. They are read from metrics.k8s.io unless the source is a Prometheus. */ -}}
{{- $learns := or (hasKey .properties "history") (eq ($args.statistic | default "") "PredictedPeak") -}}
{{- $sources = append $sources (set $source "podMetrics" (and $learns (ne $source.type "Prometheus"))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $sources -}}
{{- end -}}

{{- /* Non-empty if a plugin reads a source of the type. */ -}}
{{- define "plimsoll.reads" -}}
{{- range (fromJsonArray (include "plimsoll.sources" .root)) -}}{{- if eq .type $.type -}}true{{- end -}}{{- end -}}
{{- end -}}

{{- /* The advice to set a selector, empty if all of Prometheus' load is read with one. */ -}}
{{- define "plimsoll.selectorNote" -}}
{{- $unselected := false -}}
{{- range (fromJsonArray (include "plimsoll.sources" .)) -}}{{- if .unselected -}}{{- $unselected = true -}}{{- end -}}{{- end -}}
{{- if $unselected }}

It reads load from Prometheus without a selector, so a tenant's scrape target can speak for a node. Copy the line of your stack into
metricProvider. See "Selector" in docs/configure.md.

{{- if ne .Values.target "OpenShift" }}

    # kube-prometheus, kube-prometheus-stack and victoria-metrics-k8s-stack, with the namespace they are installed in
    selector: '{namespace="monitoring", job="node-exporter"}'
{{- end }}

    # OpenShift
    selector: '{namespace="openshift-monitoring", job="node-exporter"}'
{{- end -}}
{{- end -}}

{{- /* The resources of metrics.k8s.io that a plugin reads, as a JSON list. */ -}}
{{- define "plimsoll.metricsResources" -}}
{{- $resources := list -}}
{{- range (fromJsonArray (include "plimsoll.sources" .)) -}}
{{- if eq .type "KubernetesMetricsServer" -}}{{- $resources = append $resources "nodes" -}}{{- end -}}
{{- if .podMetrics -}}{{- $resources = append $resources "pods" -}}{{- end -}}
{{- end -}}
{{- toJson (uniq $resources | sortAlpha) -}}
{{- end -}}

{{- /* The ports of the sources' addresses, as a JSON list. SignalFx and Datadog have a default address, with port 443. */ -}}
{{- define "plimsoll.sourcePorts" -}}
{{- $ports := list -}}
{{- range . -}}
{{- if and (not .address) (has .type (list "SignalFx" "Datadog")) -}}{{- $ports = append $ports 443 -}}{{- end -}}
{{- if .address -}}
{{- $url := urlParse .address -}}
{{- $port := regexFind "[0-9]+$" (regexFind ":[0-9]+$" $url.host) | default (ternary "443" "80" (eq $url.scheme "https")) -}}
{{- $ports = append $ports (int $port) -}}
{{- end -}}
{{- end -}}
{{- toJson (uniq $ports) -}}
{{- end -}}

{{- /* The leader election of the configuration, as given or filled in, as JSON. */ -}}
{{- define "plimsoll.lease" -}}
{{- (fromYaml (include "plimsoll.config" .)).leaderElection | toJson -}}
{{- end -}}

{{- /* The volumes for credentials and a CA bundle, from values with tokenSecret, applicationKeySecret and caConfigMap. */ -}}
{{- define "plimsoll.volumes" -}}
{{- if .tokenSecret.name -}}
- name: token
  secret:
    secretName: {{ .tokenSecret.name | quote }}
    items:
    - {key: {{ .tokenSecret.key | quote }}, path: token}
{{ end -}}
{{- if (.applicationKeySecret).name -}}
- name: application-key
  secret:
    secretName: {{ .applicationKeySecret.name | quote }}
    items:
    - {key: {{ .applicationKeySecret.key | quote }}, path: application-key}
{{ end -}}
{{- if .caConfigMap.name -}}
- name: ca
  configMap:
    name: {{ .caConfigMap.name | quote }}
    items:
    - {key: {{ .caConfigMap.key | quote }}, path: ca.crt}
{{- end -}}
{{- end -}}

{{- /* The name of the ConfigMap with the configuration. */ -}}
{{- define "plimsoll.configMap" -}}
{{- .Values.existingConfigMap | default (include "plimsoll.fullname" .) -}}
{{- end -}}

{{- define "plimsoll.volumeMounts" -}}
{{- if .tokenSecret.name -}}
- name: token
  mountPath: /etc/plimsoll/token
  readOnly: true
{{ end -}}
{{- if (.applicationKeySecret).name -}}
- name: application-key
  mountPath: /etc/plimsoll/application-key
  readOnly: true
{{ end -}}
{{- if .caConfigMap.name -}}
- name: ca
  mountPath: /etc/plimsoll/ca
  readOnly: true
{{- end -}}
{{- end -}}

{{- /* The variables and mounts of files that the configuration may name. */ -}}
{{- define "plimsoll.filesEnv" -}}
{{- if (.Values.nodePowerModelConfigMap).name -}}
- name: NODE_POWER_MODEL
  value: /etc/plimsoll/power-models/models.json
{{ end -}}
{{- with .Values.extraEnv }}
{{- toYaml . }}
{{- end -}}
{{- end -}}

{{- define "plimsoll.fileMounts" -}}
- name: config
  mountPath: /etc/plimsoll/config
  readOnly: true
{{ with .Values.extraVolumeMounts -}}
{{ toYaml . }}
{{ end -}}
{{- with include "plimsoll.volumeMounts" .Values -}}
{{ . | trim }}
{{ end -}}
{{- if (.Values.nodePowerModelConfigMap).name -}}
- name: power-models
  mountPath: /etc/plimsoll/power-models
  readOnly: true
{{- end -}}
{{- end -}}

{{- /* The egress rules of a NetworkPolicy, from a dict with policy (.Values.networkPolicy) and sources (the load sources). */ -}}
{{- define "plimsoll.egress" -}}
# DNS. The port of the pod counts, and OpenShift's DNS pods listen on 5353.
- ports:
  - {protocol: UDP, port: 53}
  - {protocol: TCP, port: 53}
  - {protocol: UDP, port: 5353}
  - {protocol: TCP, port: 5353}
{{- if or .policy.apiServer.cidrs .policy.apiServer.ports }}
# The API server.
-
  {{- with .policy.apiServer.ports }}
  ports:
  {{- range . }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
  {{- end }}
  {{- with .policy.apiServer.cidrs }}
  to:
  {{- range . }}
  - ipBlock: {cidr: {{ . | quote }}}
  {{- end }}
  {{- end }}
{{- with fromJsonArray (include "plimsoll.sourcePorts" .sources) }}
# The metrics sources, at any address.
- ports:
  {{- range . }}
  - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end }}
{{- else }}
# The API server, whose address the chart does not know, and the metrics sources.
- ports:
  - {protocol: TCP}
{{- end }}
{{- with .policy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
