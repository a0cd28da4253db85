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

{{- /* The image is for Linux, and clusters may have Windows nodes. */ -}}
{{- define "plimsoll.nodeSelector" -}}
{{- merge (dict) (.Values.nodeSelector | default dict) (dict "kubernetes.io/os" "linux") | toYaml -}}
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

{{- define "plimsoll.loadPort" -}}
{{- ternary 10269 .Values.loadPort (kindIs "invalid" .Values.loadPort) -}}
{{- end -}}

{{- /* The image, by default for the cluster's minor version or, if the cluster is newer than all images, for the newest. */ -}}
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
{{- $minors := fromJsonArray (include "plimsoll.minors" $) -}}
{{- $cluster := include "plimsoll.kubernetes" $ -}}
{{ .repository }}:{{ trimPrefix "v" $.Chart.AppVersion }}-k8s{{ has $cluster $minors | ternary $cluster (last $minors) }}
{{- end -}}
{{- end -}}
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
{{- $others := (.Files.Get "files/plugins.json" | fromJson).otherPlugins -}}
{{- $default := false -}}
{{- range $i, $profile := $config.profiles -}}
{{- if eq ($profile.schedulerName | default "default-scheduler") "default-scheduler" -}}{{- $default = true -}}{{- end -}}
{{- range $point, $set := ($profile.plugins | default dict) -}}
{{- range $j, $plugin := ($set | default dict).enabled -}}
{{- if has .name $others -}}
{{- fail (printf "config.profiles[%d].plugins.%s.enabled[%d]: remove %s: it is one of sigs.k8s.io/scheduler-plugins that this scheduler does not have. For pods that need it, run that project's scheduler beside this one, with a schedulerName of its own" $i $point $j .name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $j, $plugin := $profile.pluginConfig -}}
{{- $provider := ((.args | default dict).metricProvider | default dict) -}}
{{- $where := printf "config.profiles[%d], arguments of %s: metricProvider" $i .name -}}
{{- range $field, $secret := dict "token" "token" "applicationKey" "application-key" -}}
{{- if hasKey $provider $field -}}
{{- fail (printf "%s.%s would be readable in a ConfigMap. Put it into a Secret, name the Secret in %sSecret, and set metricProvider.%sFile: /etc/plimsoll/%s/%s" $where $field $field $field $secret $secret) -}}
{{- end -}}
{{- end -}}
{{- range $field, $address := dict "metricProvider.address" $provider.address "watcherAddress" (.args | default dict).watcherAddress -}}
{{- if regexMatch "^[a-zA-Z]+://[^/?#]*@" ($address | default "") -}}
{{- fail (printf "config.profiles[%d], arguments of %s: %s holds a user or a password, which would be readable in a ConfigMap. Remove the part before the @. If the source needs a credential, give it a token with tokenSecret and metricProvider.tokenFile" $i $plugin.name $field) -}}
{{- end -}}
{{- end -}}
{{- $deployment := eq $.Values.target "Deployment" -}}
{{- range $field, $mount := dict "tokenFile" (dict "dir" "/etc/plimsoll/token/" "what" "Secret" "value" "tokenSecret") "applicationKeyFile" (dict "dir" "/etc/plimsoll/application-key/" "what" "Secret" "value" "applicationKeySecret") "caFile" (dict "dir" "/etc/plimsoll/ca/" "what" "ConfigMap" "value" "caConfigMap") "httpConfigFile" (dict "dir" "/etc/plimsoll/http-config/" "what" "Secret" "value" "httpConfigSecret") -}}
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
{{- range $value, $labels := dict "podLabels" .Values.podLabels "commonLabels" .Values.commonLabels -}}
{{- if hasKey ($labels | default dict) "plimsoll.io/scheduler" -}}
{{- fail (printf "%s: plimsoll.io/scheduler is set by the chart, for its admission policy. Remove it" $value) -}}
{{- end -}}
{{- end -}}
{{- with .Values.podDisruptionBudget -}}
{{- if and (eq $.Values.target "Deployment") .enabled (ge (int .minAvailable) (int $.Values.replicas)) -}}
{{- fail (printf "podDisruptionBudget.minAvailable is %d with replicas: %d: no pod could ever be evicted, so no node could be drained. Lower it, or raise replicas" (int .minAvailable) (int $.Values.replicas)) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.existingConfigMap (eq .Values.target "StaticPod") -}}
{{- fail "existingConfigMap: not supported with target StaticPod, whose configuration is a file. Leave it out" -}}
{{- end -}}
{{- if ne .Values.target "Deployment" -}}
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

{{- /* The load sources that the enabled plugins read, as a JSON list of {type, address}. A plugin without arguments, or whose
arguments name no source, reads KubernetesMetricsServer. Prometheus is unselected if a dialect's series are read without a selector. */ -}}
{{- define "plimsoll.sources" -}}
{{- $arguments := (.Files.Get "files/plugins.json" | fromJson).arguments -}}
{{- $sources := list -}}
{{- range .Values.config.profiles -}}
{{- $given := dict -}}
{{- range .pluginConfig -}}{{- $_ := set $given .name (.args | default dict) -}}{{- end -}}
{{- $enabled := list -}}
{{- range $point, $set := (.plugins | default dict) -}}
{{- range ($set | default dict).enabled -}}{{- $enabled = append $enabled .name -}}{{- end -}}
{{- end -}}
{{- range $plugin := ($enabled | uniq | sortAlpha) -}}
{{- with get $arguments $plugin -}}
{{- if has "metricProvider" . -}}
{{- $args := get $given $plugin | default dict -}}
{{- $provider := $args.metricProvider | default dict -}}
{{- $source := dict "type" ($provider.type | default "KubernetesMetricsServer") "address" ($provider.address | default "") -}}
{{- $queries := $provider.queries | default dict -}}
{{- if and (eq $source.type "Prometheus") (not (has "metrics" .)) (not $provider.selector) (not (and $queries.cpu $queries.memory)) -}}
{{- $_ := set $source "unselected" true -}}
{{- end -}}
{{- if $args.watcherAddress -}}
{{- $source = dict "type" "LoadWatcher" "address" $args.watcherAddress -}}
{{- end -}}
{{- /* Statistics of workloads have a history. They are read from metrics.k8s.io unless the source is a Prometheus that has pods. */ -}}
{{- $learns := or (has "history" .) (eq ($args.statistic | default "") "PredictedPeak") -}}
{{- $sources = append $sources (set $source "podMetrics" (and $learns (or (ne $source.type "Prometheus") ($provider.podsFromMetricsServer | default false)))) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $sources -}}
{{- end -}}

{{- /* Non-empty if a plugin reads a source of the type. */ -}}
{{- define "plimsoll.reads" -}}
{{- range (fromJsonArray (include "plimsoll.sources" .root)) -}}{{- if eq .type $.type -}}true{{- end -}}{{- end -}}
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

{{- /* The leader election of the configuration, as given or filled in, as JSON. */ -}}
{{- define "plimsoll.lease" -}}
{{- (fromYaml (include "plimsoll.config" .)).leaderElection | toJson -}}
{{- end -}}

{{- /* The volumes from values with tokenSecret, applicationKeySecret, httpConfigSecret and caConfigMap. */ -}}
{{- define "plimsoll.volumes" -}}
{{- range $name, $secret := dict "token" .tokenSecret "application-key" (.applicationKeySecret | default dict) "http-config" (.httpConfigSecret | default dict) -}}
{{- if $secret.name -}}
- name: {{ $name }}
  secret:
    secretName: {{ $secret.name | quote }}
    {{- if ne $name "http-config" }}
    items:
    - {key: {{ $secret.key | quote }}, path: {{ $name }}}
    {{- end }}
{{ end -}}
{{- end -}}
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
{{- range $name, $object := dict "token" .tokenSecret "application-key" (.applicationKeySecret | default dict) "http-config" (.httpConfigSecret | default dict) "ca" .caConfigMap -}}
{{- if $object.name -}}
- name: {{ $name }}
  mountPath: /etc/plimsoll/{{ $name }}
  readOnly: true
{{ end -}}
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
